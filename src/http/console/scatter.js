// A scatter plot in WebGL2: all points in one draw call, moved in the shader, picked through a grid.

const VERTEX = `#version 300 es
in vec2 place;
in vec4 paint;
uniform vec4 view;
uniform float size;
out vec4 color;
void main() {
  gl_Position = vec4(place * view.xy + view.zw, 0, 1);
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
const MARGIN = 0.8;
const ZOOM_MOST = 3000;
const REACH = 14;
const STEPS = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]};
const ZOOMS = {'+': 1.4, '=': 1.4, '-': 1 / 1.4};
const clamp = (low, value, high) => Math.max(low, Math.min(high, value));
const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
const range = list => list.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);

// A plot on a canvas. `on` has the callbacks `hover(index)`, `open(index)`, `loop(spots)`, `chosen(indices)` and `drawn()`, called after
// each frame. The index is -1 where there is no point. Positions lie between -1 and 1; spots are pixels from the canvas's corner.
export function plot(canvas, on) {
	const gl = canvas.getContext('webgl2', {antialias: false});
	const fingers = new Map();
	const buffers = {};
	let [places, colors, shown, members, starts] = Array.from({length: 5}, () => new Uint8Array());
	let [x, y, scale, least, width, height, side] = [0, 0, 1, 1, 0, 0, 1];
	let [spread, whole, lasso, program, frame, pressed, loop] = [[1, 1], true, false];

	// Compiles the program and fills the buffers; called again after the browser lost the context.
	function prepare() {
		if (!gl) return;
		program = gl.createProgram();
		for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
			const shader = gl.createShader(kind);
			gl.shaderSource(shader, source);
			gl.compileShader(shader);
			gl.attachShader(program, shader);
		}
		gl.linkProgram(program);
		gl.useProgram(program);
		gl.enable(gl.BLEND);
		gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
		gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
		for (const name of ['place', 'paint']) buffers[name] = gl.createBuffer();
		if (places.length > 0) upload();
	}

	function upload() {
		if (!gl) return;
		for (const [name, content, parts, kind] of [['place', places, 2, gl.FLOAT], ['paint', colors, 4, gl.UNSIGNED_BYTE]]) {
			gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
			gl.bufferData(gl.ARRAY_BUFFER, content, gl.DYNAMIC_DRAW);
			const slot = gl.getAttribLocation(program, name);
			gl.enableVertexAttribArray(slot);
			gl.vertexAttribPointer(slot, parts, kind, true, 0, 0);
		}
		gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, shown, gl.DYNAMIC_DRAW);
	}

	function load(across, up) {
		const [[left, right], [low, high]] = [range(across), range(up)];
		const half = Math.max(right - left, high - low) / 2 || 1;
		spread = [(right - left) / half / 2 || 1, (high - low) / half / 2 || 1];
		places = new Float32Array(across.length * 2).map((_, at) => (at % 2 ? up[at >> 1] - (low + high) / 2 : across[at >> 1] - (left + right) / 2) / half);
		sort();
		fit();
	}

	// Sorts the points into the cells of a grid, by counting.
	function sort() {
		members = new Uint32Array(places.length / 2);
		side = Math.ceil(Math.sqrt(members.length / 3));
		starts = new Uint32Array(side ** 2 + 1);
		const cells = members.map((_, at) => cell(places[at * 2]) + side * cell(places[at * 2 + 1]));
		for (const one of cells) starts[one + 1] += 1;
		for (let at = 1; at < starts.length; at += 1) starts[at] += starts[at - 1];
		const next = starts.slice();
		cells.forEach((one, at) => { members[next[one]++] = at; });
	}

	const cell = place => clamp(0, Math.floor((place + 1) / 2 * side), side - 1);

	// Takes four bytes per point: red, green, blue, strength (0 is hidden, 255 large and on top).
	function paint(bytes) {
		colors = bytes;
		const count = members.length;
		// Shuffled, so that the last documents of the collection do not cover the others.
		const step = count % 7919 === 0 ? 7907 : 7919;
		const order = Array.from({length: count}, (_, at) => at * step % count).filter(at => colors[at * 4 + 3] > 0);
		const strong = at => colors[at * 4 + 3] === 255;
		shown = Uint32Array.from([...order.filter(at => !strong(at)), ...order.filter(strong)]);
		upload();
		redraw();
	}

	function resize() {
		[width, height] = [canvas.clientWidth, canvas.clientHeight];
		[canvas.width, canvas.height] = [width * devicePixelRatio, height * devicePixelRatio];
		if (whole) fit();
		else redraw();
	}

	function fit() {
		whole = true;
		scale = least = MARGIN / 2 * Math.min(width / spread[0], height / spread[1]);
		[x, y] = [0, 0];
		redraw();
	}

	const redraw = () => { frame ??= requestAnimationFrame(draw); };

	function draw() {
		frame = undefined;
		if (!height || shown.length + places.length === 0) return;
		if (gl) {
			const size = clamp(2.6, 240 / Math.sqrt(members.length), 12) * (scale / least) ** 0.35;
			const [across, up] = [2 * scale / width, 2 * scale / height];
			const at = name => gl.getUniformLocation(program, name);
			gl.viewport(0, 0, canvas.width, canvas.height);
			gl.clear(gl.COLOR_BUFFER_BIT);
			gl.uniform4f(at('view'), across, up, -x * across, -y * up);
			gl.uniform1f(at('size'), Math.min(size, 22) * devicePixelRatio);
			gl.drawElements(gl.POINTS, shown.length, gl.UNSIGNED_INT, 0);
		}
		on.drawn();
	}

	const spot = ([across, up]) => [(across - x) * scale + width / 2, (y - up) * scale + height / 2];
	const placeAt = ([across, down]) => [x + (across - width / 2) / scale, y - (down - height / 2) / scale];
	const placeOf = index => places.subarray(index * 2, index * 2 + 2);

	function pan(across, down) {
		whole = false;
		[x, y] = [clamp(-1, x - across / scale, 1), clamp(-1, y + down / scale, 1)];
		redraw();
	}

	// Zooms; the position under `at` stays where it is.
	function zoom(factor, at = [width / 2, height / 2]) {
		const place = placeAt(at);
		scale = clamp(least / 2, scale * factor, least * ZOOM_MOST);
		const [across, down] = spot(place);
		pan(at[0] - across, at[1] - down);
	}

	// The points shown between two spots, by the grid.
	function* between(from, to) {
		const [[left, high], [right, low]] = [placeAt(from), placeAt(to)];
		for (let row = cell(low); row <= cell(high); row += 1) {
			for (let at = starts[row * side + cell(left)]; at < starts[row * side + cell(right) + 1]; at += 1) {
				const [across, up] = placeOf(members[at]);
				if (across >= left && across <= right && up >= low && up <= high && colors[members[at] * 4 + 3] > 0) yield members[at];
			}
		}
	}

	const inView = () => [...(height ? between([0, 0], [width, height]) : shown)];

	// The point nearest to a spot, or -1.
	function near(at) {
		const found = [...between(at.map(one => one - REACH), at.map(one => one + REACH))];
		const far = index => distance(at, spot(placeOf(index)));
		return found.reduce((best, one) => (best < 0 || far(one) < far(best) ? one : best), -1);
	}

	// The points in a loop of spots: a ray from each crosses the loop an odd number of times.
	function inside(spots) {
		const [[left, right], [top, low]] = [0, 1].map(axis => range(spots.map(one => one[axis])));
		return [...between([left, top], [right, low])].filter(index => {
			const [across, down] = spot(placeOf(index));
			return spots.filter(([toX, toY], at) => {
				const [fromX, fromY] = spots.at(at - 1);
				return (fromY > down) !== (toY > down) && across < (toX - fromX) * (down - fromY) / (toY - fromY) + fromX;
			}).length % 2 === 1;
		});
	}

	function lift({pointerId}) {
		fingers.delete(pointerId);
		[pressed, loop] = [];
		on.loop([]);
	}

	const events = {
		pointerdown({pointerId, shiftKey}, at) {
			canvas.setPointerCapture(pointerId);
			fingers.set(pointerId, at);
			pressed = fingers.size === 1 && at;
			loop = pressed && (lasso || shiftKey) && [at];
			on.hover(-1);
		},
		pointermove({pointerId}, at) {
			const last = fingers.get(pointerId);
			if (!last) return on.hover(near(at));
			if (pressed && distance(at, pressed) > 4) pressed = null;
			if (loop && distance(at, last) < 3) return undefined;
			fingers.set(pointerId, at);
			const [across, down] = [at[0] - last[0], at[1] - last[1]];
			if (loop) {
				loop.push(at);
				on.loop(loop);
			} else if (fingers.size === 2) {
				const [, other] = [...fingers].find(([id]) => id !== pointerId);
				zoom(distance(at, other) / (distance(last, other) || 1), [(at[0] + other[0]) / 2, (at[1] + other[1]) / 2]);
				pan(across / 2, down / 2);
			} else if (!pressed) pan(across, down);
			return undefined;
		},
		pointerup(event) {
			const [drawn, click] = [loop, pressed];
			lift(event);
			if (drawn?.length > 2) on.chosen(inside(drawn));
			else if (click) on.open(near(click));
		},
		pointercancel: lift,
		pointerleave: () => on.hover(-1),
		wheel(event, at) {
			event.preventDefault();
			zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : event.ctrlKey ? 0.01 : 0.0016)), at);
		},
		keydown(event) {
			const {key, ctrlKey, metaKey, altKey} = event;
			if (ctrlKey || metaKey || altKey || !(STEPS[key] || ZOOMS[key] || key === '0')) return;
			event.preventDefault();
			if (STEPS[key]) pan(...STEPS[key]);
			else if (ZOOMS[key]) zoom(ZOOMS[key]);
			else fit();
		},
		webglcontextlost: event => event.preventDefault(),
		webglcontextrestored: prepare,
	};
	for (const [name, heard] of Object.entries(events)) canvas.addEventListener(name, event => heard(event, [event.offsetX, event.offsetY]), {passive: false});
	new ResizeObserver(resize).observe(canvas);
	prepare();
	return {works: Boolean(gl), load, paint, redraw, fit, zoom, inView, spot, placeOf, drawsLoops: on => { lasso = on; }, size: () => [width, height]};
}
