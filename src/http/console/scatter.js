// A scatter plot in WebGL2: all points in one draw call, panned and zoomed in the shader, picked by a grid. It knows places and
// colors, and nothing of documents.

const VERTEX = `#version 300 es
in vec2 place, before;
in vec4 paint;
uniform vec4 view;
uniform float size, arrived;
out vec4 color;
void main() {
  gl_Position = vec4(mix(before, place, arrived) * view.xy + view.zw, 0, 1);
  gl_PointSize = paint.a > .9 ? size * 1.7 + 2. : size;
  color = paint;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 color;
out vec4 pixel;
void main() {
  float far = length(gl_PointCoord * 2. - 1.);
  pixel = vec4(color.rgb, 1) * color.a * (1. - smoothstep(1. - fwidth(far), 1., far));
}`;
const MARGIN = 0.86;
const ZOOM_MOST = 3000;
const REACH = 14;
const TRAVEL_MS = 700;
const STEPS = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
const ZOOMS = { '+': 1.4, '=': 1.4, '-': 1 / 1.4 };

/**
 * The plot on a canvas. `on` hears `hover(index, spot)`, `open(index)`, `loop(spots)`, `chosen(indices)` and, after each frame,
 * `drawn()`; an index is -1 where no point is. Spots are pixels of the page from the canvas's corner.
 */
export class Scatter {
  constructor(canvas, on) {
    Object.assign(this, { canvas, on, scale: 0, x: 0, y: 0, size: 0, width: 0, height: 0, whole: true, lasso: false, loop: null, fingers: new Map() });
    for (const name of ['pointerdown', 'pointermove', 'pointerup', 'pointercancel', 'pointerleave', 'wheel', 'keydown']) {
      canvas.addEventListener(name, (event) => this[name](event), { passive: false });
    }
    canvas.addEventListener('webglcontextlost', (event) => event.preventDefault());
    canvas.addEventListener('webglcontextrestored', () => this.prepare());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.prepare();
  }

  /** Compiles the program and fills the buffers; again when the browser had taken the context away. */
  prepare() {
    const gl = this.canvas.getContext('webgl2', { antialias: false });
    this.gl = gl;
    if (!gl) return;
    this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.buffers = {};
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    if (this.places) this.upload();
  }

  fillBuffer(name, content, parts, kind) {
    const { gl, program } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name] ??= gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, content, gl.DYNAMIC_DRAW);
    const slot = gl.getAttribLocation(program, name);
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, parts, kind, true, 0, 0);
  }

  upload() {
    const { gl } = this;
    if (!gl) return;
    this.fillBuffer('place', this.places, 2, gl.FLOAT);
    this.fillBuffer('before', this.before, 2, gl.FLOAT);
    if (this.colors) this.paint(this.colors);
  }

  /** Takes points, brought to lie between -1 and 1. `from` tells for each which of the points until now it was, or -1: it travels. */
  load(x, y, from) {
    const old = this.places;
    const range = (list) => list.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
    const [[left, right], [low, high]] = [range(x), range(y)];
    const half = Math.max(right - left, high - low) / 2 || 1;
    this.places = new Float32Array(x.length * 2);
    for (let at = 0; at < x.length; at += 1) {
      this.places[at * 2] = (x[at] - (left + right) / 2) / half;
      this.places[at * 2 + 1] = (y[at] - (low + high) / 2) / half;
    }
    this.spread = [(right - left) / half / 2 || 1, (high - low) / half / 2 || 1];
    this.before = this.places.map((place, at) => (from?.[at >> 1] >= 0 ? old[from[at >> 1] * 2 + at % 2] : place));
    this.started = from ? performance.now() : 0;
    this.colors = null;
    this.makeGrid();
    this.upload();
    this.fit();
  }

  /** Sorts the points into the cells of a grid by counting. */
  makeGrid() {
    const { places } = this;
    const count = places.length / 2;
    this.side = Math.max(1, Math.ceil(Math.sqrt(count / 3)));
    this.starts = new Uint32Array(this.side ** 2 + 1);
    this.members = new Uint32Array(count);
    const cells = Uint32Array.from({ length: count }, (_, at) => this.cell(places[at * 2]) + this.side * this.cell(places[at * 2 + 1]));
    for (const one of cells) this.starts[one + 1] += 1;
    for (let at = 1; at < this.starts.length; at += 1) this.starts[at] += this.starts[at - 1];
    const next = this.starts.slice();
    cells.forEach((one, at) => { this.members[next[one]++] = at; });
  }

  cell(place) {
    return Math.max(0, Math.min(this.side - 1, Math.floor((place + 1) / 2 * this.side)));
  }

  /** Takes four bytes for each point: red, green, blue, and how strongly it shows: 0 is hidden, 255 large and on top. */
  paint(colors) {
    this.colors = colors;
    const count = colors.length / 4;
    const order = [];
    const top = [];
    // Steps through the points in an order of its own, so that those that come last in the collection do not cover all others.
    const step = count % 7919 === 0 ? 7907 : 7919;
    for (let at = 0, one = 0; at < count; at += 1, one = (one + step) % count) {
      if (colors[one * 4 + 3] > 0) (colors[one * 4 + 3] === 255 ? top : order).push(one);
    }
    this.shown = order.length + top.length;
    if (!this.gl) return;
    this.fillBuffer('paint', colors, 4, this.gl.UNSIGNED_BYTE);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, Uint32Array.from([...order, ...top]), this.gl.DYNAMIC_DRAW);
    this.redraw();
  }

  resize() {
    const { canvas } = this;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = this.width * devicePixelRatio;
    canvas.height = this.height * devicePixelRatio;
    if (this.whole) this.fit();
    else this.redraw();
  }

  /** Shows all points. */
  fit() {
    this.whole = true;
    if (!this.places || !this.height) return;
    this.least = MARGIN / 2 * Math.min(this.width / this.spread[0], this.height / this.spread[1]);
    Object.assign(this, { x: 0, y: 0, scale: this.least });
    this.redraw();
  }

  redraw() {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = undefined;
      this.draw(now);
    });
  }

  draw(now) {
    const { gl, width, height, scale } = this;
    if (!this.places || !height) return;
    const arrived = Math.min(1, Math.max(0, now - this.started) / TRAVEL_MS);
    if (gl && this.colors) {
      const count = this.colors.length / 4;
      const size = Math.max(2.6, Math.min(9, 240 / Math.sqrt(count))) * (scale / this.least) ** 0.35;
      const [across, up] = [2 * scale / width, 2 * scale / height];
      const at = (name) => gl.getUniformLocation(this.program, name);
      gl.viewport(0, 0, this.canvas.width, this.canvas.height);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform4f(at('view'), across, up, -this.x * across, -this.y * up);
      gl.uniform1f(at('size'), Math.min(size, 22) * devicePixelRatio);
      gl.uniform1f(at('arrived'), 1 - (1 - arrived) ** 3);
      gl.drawElements(gl.POINTS, this.shown, gl.UNSIGNED_INT, 0);
    }
    this.on.drawn();
    if (arrived < 1) this.redraw();
  }

  /** Where a place lies on the canvas. */
  spot(x, y) {
    return [(x - this.x) * this.scale + this.width / 2, (this.y - y) * this.scale + this.height / 2];
  }

  spotOf(index) {
    return this.spot(this.places[index * 2], this.places[index * 2 + 1]);
  }

  /** Which place lies at a spot. */
  placeAt([across, down]) {
    return [this.x + (across - this.width / 2) / this.scale, this.y - (down - this.height / 2) / this.scale];
  }

  pan(across, down) {
    this.whole = false;
    this.x = Math.max(-1, Math.min(1, this.x - across / this.scale));
    this.y = Math.max(-1, Math.min(1, this.y + down / this.scale));
    this.redraw();
  }

  /** Zooms so that the place at `spot` stays where it is. */
  zoom(factor, spot = [this.width / 2, this.height / 2]) {
    const [x, y] = this.placeAt(spot);
    this.scale = Math.max(this.least / 2, Math.min(this.least * ZOOM_MOST, this.scale * factor));
    const [after, below] = this.spot(x, y);
    this.pan(spot[0] - after, spot[1] - below);
  }

  /** The points in a box of places that are shown, by the grid. */
  * within(left, low, right, high) {
    for (let row = this.cell(low); row <= this.cell(high); row += 1) {
      const first = row * this.side;
      for (let at = this.starts[first + this.cell(left)]; at < this.starts[first + this.cell(right) + 1]; at += 1) {
        const one = this.members[at];
        const [x, y] = [this.places[one * 2], this.places[one * 2 + 1]];
        if (x >= left && x <= right && y >= low && y <= high && this.colors?.[one * 4 + 3] > 0) yield one;
      }
    }
  }

  inBox(from, to) {
    const [[left, high], [right, low]] = [this.placeAt(from), this.placeAt(to)];
    return this.within(left, low, right, high);
  }

  /** The points that can be seen now. */
  inView() {
    return [...(!this.height ? this.within(-1, -1, 1, 1) : this.inBox([0, 0], [this.width, this.height]))];
  }

  /** The point nearest to a spot, or -1. */
  near([across, down]) {
    let best = -1;
    let least = REACH;
    for (const one of this.inBox([across - REACH, down - REACH], [across + REACH, down + REACH])) {
      const [x, y] = this.spotOf(one);
      const far = Math.hypot(x - across, y - down) - (this.colors[one * 4 + 3] === 255 ? 4 : 0);
      if (far < least) [best, least] = [one, far];
    }
    return best;
  }

  /** The points inside a loop of spots, by the rule that a ray out of it crosses the loop an odd number of times. */
  inLoop(loop) {
    const range = (part) => [Math.min(...loop.map((one) => one[part])), Math.max(...loop.map((one) => one[part]))];
    const [[left, right], [top, low]] = [range(0), range(1)];
    return [...this.inBox([left, top], [right, low])].filter((index) => {
      const [x, y] = this.spotOf(index);
      let inside = false;
      loop.forEach(([toX, toY], at) => {
        const [fromX, fromY] = loop.at(at - 1);
        if ((fromY > y) !== (toY > y) && x < (toX - fromX) * (y - fromY) / (toY - fromY) + fromX) inside = !inside;
      });
      return inside;
    });
  }

  pointerdown(event) {
    const spot = [event.offsetX, event.offsetY];
    this.canvas.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, spot);
    this.still = this.fingers.size === 1 && spot;
    this.loop = this.still && (this.lasso || event.shiftKey) ? [spot] : null;
    this.on.hover(-1);
  }

  pointermove(event) {
    const spot = [event.offsetX, event.offsetY];
    const before = this.fingers.get(event.pointerId);
    if (!before) {
      this.on.hover(this.places ? this.near(spot) : -1, spot);
      return;
    }
    if (this.still && Math.hypot(spot[0] - this.still[0], spot[1] - this.still[1]) > 4) this.still = null;
    const [across, down] = [spot[0] - before[0], spot[1] - before[1]];
    if (this.loop) {
      if (Math.hypot(across, down) < 3) return;
      this.loop.push(spot);
      this.on.loop(this.loop);
    } else if (this.fingers.size === 2) {
      const [, other] = [...this.fingers].find(([id]) => id !== event.pointerId);
      const far = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
      this.zoom(far(spot) / far(before), [(spot[0] + other[0]) / 2, (spot[1] + other[1]) / 2]);
      this.pan(across / 2, down / 2);
    } else if (!this.still) this.pan(across, down);
    this.fingers.set(event.pointerId, spot);
  }

  pointerup(event) {
    if (!this.fingers.delete(event.pointerId)) return;
    const { loop } = this;
    this.loop = null;
    if (loop) this.on.loop([]);
    if (loop?.length > 2) this.on.chosen(this.inLoop(loop));
    else if (this.still) this.on.open(this.near(this.still));
  }

  pointercancel(event) {
    this.fingers.delete(event.pointerId);
    this.still = this.loop = null;
    this.on.loop([]);
  }

  pointerleave() {
    this.on.hover(-1);
  }

  wheel(event) {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : event.ctrlKey ? 0.01 : 0.0016)), [event.offsetX, event.offsetY]);
  }

  keydown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (STEPS[event.key]) this.pan(...STEPS[event.key]);
    else if (ZOOMS[event.key]) this.zoom(ZOOMS[event.key]);
    else if (event.key === '0') this.fit();
    else return;
    event.preventDefault();
  }
}
