// A scatter plot in WebGL2: all points in one draw call, moved in the shader, picked by a grid. It knows places and colors alone.

const VERTEX = `#version 300 es
in vec2 place, before;
in vec4 paint;
uniform vec4 view;
uniform float size, arrived;
out vec4 color;
void main() {
  gl_Position = vec4(mix(before, place, arrived) * view.xy + view.zw, 0, 1);
  gl_PointSize = paint.a == 1. ? size * 1.7 + 2. : size;
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
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
const range = (list) => list.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);

/**
 * The plot on a canvas. `on` hears `hover(index)`, `open(index)`, `loop(spots)`, `chosen(indices)` and, after each frame, `drawn()`;
 * the index is -1 where no point is. Spots are pixels from the canvas's corner.
 */
export class Scatter {
  constructor(canvas, on) {
    Object.assign(this, { canvas, on, width: 0, height: 0, whole: true, lasso: false, fingers: new Map() });
    for (const name of ['pointerdown', 'pointermove', 'pointerup', 'pointercancel', 'pointerleave', 'wheel', 'keydown']) {
      canvas.addEventListener(name, (event) => this[name](event, [event.offsetX, event.offsetY]), { passive: false });
    }
    canvas.addEventListener('webglcontextlost', (event) => event.preventDefault());
    canvas.addEventListener('webglcontextrestored', () => this.prepare());
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.prepare();
  }

  /** Compiles the program and fills the buffers; again after the browser took the context away. */
  prepare() {
    const gl = this.gl = this.canvas.getContext('webgl2', { antialias: false });
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
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    this.buffers = {};
    this.upload('place', this.places, 2, gl.FLOAT);
    this.upload('before', this.before, 2, gl.FLOAT);
    if (this.colors) this.paint(this.colors);
  }

  upload(name, content, parts, kind) {
    const { gl } = this;
    if (!gl || !content) return;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name] ??= gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, content, gl.DYNAMIC_DRAW);
    const slot = gl.getAttribLocation(this.program, name);
    gl.enableVertexAttribArray(slot);
    gl.vertexAttribPointer(slot, parts, kind, true, 0, 0);
  }

  /** Takes points, brought to lie between -1 and 1. `from` has for each which of the points until now it was, or -1: it travels. */
  load(x, y, from) {
    const old = this.places;
    const [[left, right], [low, high]] = [range(x), range(y)];
    const half = Math.max(right - left, high - low) / 2 || 1;
    this.spread = [(right - left) / half / 2 || 1, (high - low) / half / 2 || 1];
    this.places = new Float32Array(x.length * 2).map((_, at) => (at % 2 ? y[at >> 1] - (low + high) / 2 : x[at >> 1] - (left + right) / 2) / half);
    this.before = this.places.map((place, at) => (from?.[at >> 1] >= 0 ? old[from[at >> 1] * 2 + at % 2] : place));
    this.started = from ? performance.now() : 0;
    this.colors = null;
    this.sort();
    this.upload('place', this.places, 2, this.gl?.FLOAT);
    this.upload('before', this.before, 2, this.gl?.FLOAT);
    this.fit();
  }

  /** Sorts the points into the cells of a grid, by counting. */
  sort() {
    const count = this.places.length / 2;
    this.side = Math.ceil(Math.sqrt(count / 3));
    this.starts = new Uint32Array(this.side ** 2 + 1);
    this.members = new Uint32Array(count);
    const cells = this.members.map((_, at) => this.cell(this.places[at * 2]) + this.side * this.cell(this.places[at * 2 + 1]));
    for (const cell of cells) this.starts[cell + 1] += 1;
    for (let at = 1; at < this.starts.length; at += 1) this.starts[at] += this.starts[at - 1];
    const next = this.starts.slice();
    cells.forEach((cell, at) => { this.members[next[cell]++] = at; });
  }

  cell(place) {
    return clamp(0, Math.floor((place + 1) / 2 * this.side), this.side - 1);
  }

  /** Takes four bytes for each point: red, green, blue, and how strongly it shows: 0 is hidden, 255 large and above the others. */
  paint(colors) {
    this.colors = colors;
    const count = colors.length / 4;
    // In an order of its own, so that what comes last in the collection does not cover all else.
    const step = count % 7919 === 0 ? 7907 : 7919;
    const order = Array.from({ length: count }, (_, at) => at * step % count).filter((at) => colors[at * 4 + 3] > 0);
    const strong = (at) => colors[at * 4 + 3] === 255;
    this.shown = Uint32Array.from([...order.filter((at) => !strong(at)), ...order.filter(strong)]);
    const { gl } = this;
    this.upload('paint', colors, 4, gl?.UNSIGNED_BYTE);
    gl?.bufferData(gl.ELEMENT_ARRAY_BUFFER, this.shown, gl.DYNAMIC_DRAW);
    this.redraw();
  }

  resize() {
    const { canvas } = this;
    [this.width, this.height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [this.width * devicePixelRatio, this.height * devicePixelRatio];
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
    this.frame ??= requestAnimationFrame((now) => this.draw(now));
  }

  draw(now) {
    const { gl, width, height, scale } = this;
    this.frame = undefined;
    if (!this.places || !height) return;
    const arrived = clamp(0, (now - this.started) / TRAVEL_MS, 1);
    if (gl && this.colors) {
      const size = clamp(2.6, 240 / Math.sqrt(this.members.length), 9) * (scale / this.least) ** 0.35;
      const [across, up] = [2 * scale / width, 2 * scale / height];
      const at = (name) => gl.getUniformLocation(this.program, name);
      gl.viewport(0, 0, this.canvas.width, this.canvas.height);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform4f(at('view'), across, up, -this.x * across, -this.y * up);
      gl.uniform1f(at('size'), Math.min(size, 22) * devicePixelRatio);
      gl.uniform1f(at('arrived'), 1 - (1 - arrived) ** 3);
      gl.drawElements(gl.POINTS, this.shown.length, gl.UNSIGNED_INT, 0);
    }
    this.on.drawn();
    if (arrived < 1) this.redraw();
  }

  /** Where a place lies on the canvas; the place of a point; which place lies at a spot. */
  spot([x, y]) {
    return [(x - this.x) * this.scale + this.width / 2, (this.y - y) * this.scale + this.height / 2];
  }

  placeOf(index) {
    return this.places.subarray(index * 2, index * 2 + 2);
  }

  placeAt([across, down]) {
    return [this.x + (across - this.width / 2) / this.scale, this.y - (down - this.height / 2) / this.scale];
  }

  pan(across, down) {
    this.whole = false;
    this.x = clamp(-1, this.x - across / this.scale, 1);
    this.y = clamp(-1, this.y + down / this.scale, 1);
    this.redraw();
  }

  /** Zooms; the place at `spot` stays where it is. */
  zoom(factor, spot = [this.width / 2, this.height / 2]) {
    const place = this.placeAt(spot);
    this.scale = clamp(this.least / 2, this.scale * factor, this.least * ZOOM_MOST);
    const [across, down] = this.spot(place);
    this.pan(spot[0] - across, spot[1] - down);
  }

  /** The points shown between two spots, by the grid. */
  * between(from, to) {
    const [[left, high], [right, low]] = [this.placeAt(from), this.placeAt(to)];
    for (let row = this.cell(low) * this.side; row <= this.cell(high) * this.side; row += this.side) {
      const end = this.starts[row + this.cell(right) + 1];
      for (let at = this.starts[row + this.cell(left)]; at < end; at += 1) {
        const one = this.members[at];
        const [x, y] = this.placeOf(one);
        if (x >= left && x <= right && y >= low && y <= high && this.colors?.[one * 4 + 3] > 0) yield one;
      }
    }
  }

  /** The points that can be seen now. */
  inView() {
    return [...(this.height ? this.between([0, 0], [this.width, this.height]) : this.shown)];
  }

  /** The point nearest to a spot, or -1. */
  near(spot) {
    const found = this.places ? [...this.between(spot.map((one) => one - REACH), spot.map((one) => one + REACH))] : [];
    const far = (index) => distance(spot, this.spot(this.placeOf(index)));
    return found.reduce((best, one) => (best < 0 || far(one) < far(best) ? one : best), -1);
  }

  /** The points in a loop of spots: a ray from each crosses the loop an odd number of times. */
  inLoop(loop) {
    const [[left, right], [top, low]] = [0, 1].map((part) => range(loop.map((one) => one[part])));
    return [...this.between([left, top], [right, low])].filter((index) => {
      const [x, y] = this.spot(this.placeOf(index));
      return loop.filter(([toX, toY], at) => {
        const [fromX, fromY] = loop.at(at - 1);
        return (fromY > y) !== (toY > y) && x < (toX - fromX) * (y - fromY) / (toY - fromY) + fromX;
      }).length % 2 === 1;
    });
  }

  pointerdown({ pointerId, shiftKey }, spot) {
    this.canvas.setPointerCapture(pointerId);
    this.fingers.set(pointerId, spot);
    this.pressed = this.fingers.size === 1 && spot;
    this.loop = this.pressed && (this.lasso || shiftKey) ? [spot] : null;
    this.on.hover(-1);
  }

  pointermove({ pointerId }, spot) {
    const { fingers, loop } = this;
    const before = fingers.get(pointerId);
    if (!before) return this.on.hover(this.near(spot));
    if (this.pressed && distance(spot, this.pressed) > 4) this.pressed = null;
    if (loop && distance(spot, before) < 3) return undefined;
    fingers.set(pointerId, spot);
    const [across, down] = [spot[0] - before[0], spot[1] - before[1]];
    if (loop) {
      loop.push(spot);
      this.on.loop(loop);
    } else if (fingers.size === 2) {
      const [, other] = [...fingers].find(([id]) => id !== pointerId);
      this.zoom(distance(spot, other) / (distance(before, other) || 1), [(spot[0] + other[0]) / 2, (spot[1] + other[1]) / 2]);
      this.pan(across / 2, down / 2);
    } else if (!this.pressed) this.pan(across, down);
    return undefined;
  }

  pointerup(event) {
    const { loop, pressed } = this;
    this.pointercancel(event);
    if (loop?.length > 2) this.on.chosen(this.inLoop(loop));
    else if (pressed) this.on.open(this.near(pressed));
  }

  pointercancel({ pointerId }) {
    this.fingers.delete(pointerId);
    this.pressed = this.loop = null;
    this.on.loop([]);
  }

  pointerleave() {
    this.on.hover(-1);
  }

  wheel(event, spot) {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : event.ctrlKey ? 0.01 : 0.0016)), spot);
  }

  keydown(event) {
    const { key, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey || !(STEPS[key] || ZOOMS[key] || key === '0')) return;
    event.preventDefault();
    if (STEPS[key]) this.pan(...STEPS[key]);
    else if (ZOOMS[key]) this.zoom(ZOOMS[key]);
    else this.fit();
  }
}
