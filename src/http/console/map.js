// The map of a collection: a point for each document, with colors, a lasso, a query and a list.

import {ended, get, metadataOf, path, post} from './api.js';
import {button, check, empty, facts, failed, fill, h, hint, icon, may, passage, select, tongue, vector, written} from './dom.js';
import {openDocument} from './hits.js';
import {showJob} from './jobs.js';
import {plot} from './scatter.js';
import {ago, hue, languageName, link, number, plural, short} from './text.js';

const LISTED = 20;
const GROUPS_MOST = 40;
const SELECTED_MOST = 2000;
const [HIDDEN, FAINT, PLAIN, STRONG] = [0, 30, 205, 255];
const pen = h('canvas').getContext('2d', {willReadFrequently: true});

function bytesOf(color) {
	pen.fillStyle = color;
	pen.fillRect(0, 0, 1, 1);
	return pen.getImageData(0, 0, 1, 1).data;
}

export async function showMap({query, signal}, {name, model}, body) {
	const fields = await metadataOf(name);
	const target = path('collections', name, 'projections');
	const texts = new Map();
	const timers = new Map();
	let center = query.get('center') ?? 'none';
	let field = query.get('field') ?? '';
	let following = false;
	let marked = -1;
	let listed = LISTED;
	// The state of the drawn map: its ids, the index of each, the group of each point, and what is in focus.
	let [version, ids, places, group, groups, labels, focus, part, shown] = ['', [], null, [], [], [], null, []];

	// Debounces: calls `work` once nothing has asked for it for a while.
	const soon = (milliseconds, work, ...values) => {
		clearTimeout(timers.get(work));
		timers.set(work, setTimeout(() => signal.aborted || work(...values).catch(failed), milliseconds));
	};
	const read = at => openDocument(name, ids[at]);
	const box = h('input', {type: 'search', value: query.get('q') ?? '', placeholder: 'Ask, and see where the answers are', label: 'Question', oninput: () => soon(300, ask)});
	const canvas = h('canvas', {tabindex: 0, role: 'application', label: 'Map of the documents: arrow keys move it, plus and minus zoom, 0 shows all. The list has the same documents.'});
	const [work, note, stage, names, tools] = ['div', 'div', 'div', 'div', 'div.line'].map(kind => h(kind));
	const [ring, tip] = [h('i.at.ring', {hidden: true}), h('div.at.tip', {hidden: true})];
	const flag = h('span.at.flag', {hidden: true}, icon('search'));
	const [legend, list] = [h('ul.legend'), h('ul.points')];
	const title = h('h2', {'aria-live': 'polite'});
	const loop = vector('path', {});
	const scatter = plot(canvas, {
		hover, drawn, open: at => at >= 0 && read(at), loop: spots => loop.setAttribute('d', spots.length > 1 ? `M${spots.join('L')}Z` : ''),
		chosen: members => look(members.length > 0 && {title: 'Selected', members}),
	});
	const lasso = button('Lasso', () => {
		const on = lasso.ariaPressed !== 'true';
		lasso.ariaPressed = String(on);
		scatter.drawsLoops(on);
	}, 'small', {'aria-pressed': 'false', title: 'Draw a loop around documents, or drag with Shift'});
	const views = [['+', 'Zoom in', () => scatter.zoom(1.6)], ['−', 'Zoom out', () => scatter.zoom(1 / 1.6)], ['Fit', 'Fit all', () => scatter.fit()]];
	const chart = h('div.map', h('div.plot.card', scatter.works ? canvas : h('p.notice.bad', {role: 'alert'}, 'The map needs WebGL2, which this browser lacks or has turned off. The list shows its documents.'),
		vector('svg', {'aria-hidden': 'true'}, loop), names, ring, flag, tip, h('div.tools', lasso, views.map(([sign, label, does]) => button(sign, does, 'small', {label})))),
	h('aside.rail', {label: 'Colors and documents'}, note, legend, title, tools, list));

	async function open() {
		const asked = `${center} ${field}`;
		const kept = new URLSearchParams(Object.entries({center, field, q: written(box)}).filter(([, value]) => value && value !== 'none'));
		history.replaceState(null, '', link('collections', name, 'map') + `?${kept}`.replace(/\?$/, ''));
		const [{projections}, {jobs}] = await Promise.all([get(target, {}, signal), get('v1/jobs', {type: 'project', collection: name, limit: 10}, signal)]);
		const running = jobs.find(job => !ended(job));
		if (running && !following) follow(running).catch(failed);
		const one = projections.find(each => each.center === center);
		const draw = may('write') && !running && button(one ? 'Update the map' : 'Draw the map', project, 'primary');
		if (!one) return fill(stage, !running && empty('No map yet', 'Each document becomes a point, near documents of similar meaning in any language.', draw));
		fill(note, hint(`${plural(one.documents, 'document')}${one.sampled ? ` of ${number(one.collection_documents)}` : ''}, drawn ${ago(one.created_at)}.`), one.stale && h('p.line', h('span.state.warn', 'The collection has changed since'), draw));
		const map = await get(`${target}/${center}`, {field}, signal);
		return asked === `${center} ${field}` ? load(map) : undefined;
	}

	const project = () => post(target, {center}).then(follow, error => {
		if (error.status !== 409) throw error;
		fill(stage, empty('No map yet', error.story));
	});

	async function follow(job) {
		following = true;
		const {status} = await showJob(work, job, signal).finally(() => { following = false; });
		if (status === 'succeeded') fill(work);
		await open();
	}

	async function load(map) {
		({ids} = map);
		shown = null;
		places = new Map(ids.map((id, at) => [id, at]));
		fill(stage, chart);
		if (version !== map.center + map.created_at) scatter.load(map.x, map.y);
		version = map.center + map.created_at;
		const [values, of] = field ? [map.values, map.value] : [map.languages, map.language];
		const parts = [...Map.groupBy(ids.keys(), at => of[at])].sort(([a, some], [b, others]) => (a < 0) - (b < 0) || others.length - some.length);
		groups = parts.slice(0, GROUPS_MOST).map(([key, members], rank) => ({members, ...(field ? {title: short(values[key] ?? 'none', 40), hue: key < 0 ? null : rank * 137.5} : {title: languageName(values[key]), hue: values[key] ? hue(values[key]) : null})}));
		if (parts.length > GROUPS_MOST) groups.push({members: parts.slice(GROUPS_MOST).flatMap(([, members]) => members), title: `${number(parts.length - GROUPS_MOST)} others`, hue: null});
		group = new Uint8Array(ids.length);
		groups.forEach(({members}, rank) => members.forEach(at => { group[at] = rank; }));
		// Compact groups have their names on the map.
		const spread = (members, middle) => sum(members, at => Math.hypot(...scatter.placeOf(at).map((one, axis) => one - middle[axis]))) / members.length;
		const all = spread([...ids.keys()], middleOf([...ids.keys()]));
		labels = groups.map(one => ({group: one, place: middleOf(one.members), element: h('span.at', one.title)}))
			.filter(({group: {members, hue: shade}, place}) => shade !== null && members.length > ids.length / 60 && spread(members, place) < all * 0.6);
		fill(names, labels.map(one => one.element));
		await ask();
	}

	const sum = (members, value) => members.reduce((total, at) => total + value(at), 0);
	const middleOf = (members, weight = () => 1) => [0, 1].map(axis => sum(members, at => scatter.placeOf(at)[axis] * weight(at)) / sum(members, weight));

	// Focuses on some documents, or on all again.
	async function look(next) {
		if (!places) return;
		focus = next || null;
		listed = LISTED;
		color();
		count();
		await show();
	}

	// Colors the points of the groups that are shown; those in focus are in front.
	function color() {
		const value = property => getComputedStyle(document.documentElement).getPropertyValue(property);
		const [muted, light, chroma] = [value('--muted'), value('--tongue-l'), value('--tongue-c')];
		const shades = groups.map(one => bytesOf(one.hue === null ? muted : `oklch(${light} ${chroma} ${one.hue})`));
		const members = focus && new Set(focus.members);
		const colors = new Uint8Array(group.length * 4);
		group.forEach((rank, at) => {
			colors.set(shades[rank], at * 4);
			colors[at * 4 + 3] = groups[rank].hidden ? HIDDEN : members && !members.has(at) ? FAINT : focus?.place ? STRONG : PLAIN;
		});
		scatter.paint(colors);
	}

	// The legend: how many of each group are in focus. A click hides or shows a group, a Shift-click shows it alone.
	function count() {
		const counts = groups.map(() => 0);
		for (const rank of focus ? focus.members.map(at => group[at]) : group) counts[rank] += 1;
		const change = hides => {
			for (const one of groups) one.hidden = hides(one);
			return look(focus);
		};
		fill(legend, groups.map((one, rank) => h('li', h('button.share', {'aria-pressed': String(!one.hidden), title: 'Hide or show; Shift-click to show only this', vars: one.hue !== null && {hue: one.hue}, onclick: ({shiftKey}) => {
			change(each => (shiftKey ? each !== one : Boolean(each.hidden) !== (each === one))).catch(failed);
			legend.children[rank].firstChild.focus();
		}}, h('i'), h('span', one.title), h('b', number(counts[rank]))))), groups.some(one => one.hidden) && h('li', button('Show all', () => change(() => false), 'small')));
	}

	// Lists the documents in focus, or else those in view.
	async function show() {
		const {title: what, members, off} = focus ?? {title: 'In view', members: scatter.inView()};
		const now = part = members.slice(0, listed);
		const filter = {field: 'id', in: members.length <= SELECTED_MOST && members.map(at => ids[at])};
		fill(title, `${what}: ${plural(members.length, 'document')}`);
		fill(tools, off > 0 && hint(`${number(off)} more are not on the map.`), what === 'Selected' && filter.in && h('a.button.small', {href: `${link('search', name)}?a=${encodeURIComponent(JSON.stringify({filter}))}`}, 'Search among these'),
			focus && button('Clear', () => {
				box.value = '';
				return look();
			}, 'small'));
		await fetchTexts(part);
		// An unchanged list keeps the focus.
		const key = [members.length, part].join();
		if (part !== now || shown === key) return;
		shown = key;
		fill(list, part.map(at => {
			const one = texts.get(ids[at]);
			return h('li', h('button', {onclick: () => read(at), onpointerenter: () => mark(at), onfocus: () => mark(at)}, tongue(one?.language, {own: false}), passage(short(one?.text || ids[at], 140), [], one?.language)));
		}), members.length > part.length && h('li', button('More', () => {
			listed += LISTED;
			return show();
		}, 'small')));
	}

	async function fetchTexts(members) {
		const missing = members.map(at => ids[at]).filter(id => !texts.has(id));
		if (missing.length === 0) return;
		const {documents} = await post(path('collections', name, 'documents', 'scroll'), {limit: missing.length, filter: {field: 'id', in: missing}}, signal);
		for (const one of documents) texts.set(one.id, one);
	}

	function mark(at) {
		marked = at;
		tip.hidden = true;
		scatter.redraw();
	}

	function hover(at) {
		if (at === marked) return;
		mark(at);
		if (at >= 0) soon(90, tell, at);
	}

	// Shows the document under the pointer, once the pointer rests.
	async function tell(at) {
		await fetchTexts([at]);
		const one = texts.get(ids[at]);
		if (marked !== at || !one) return;
		const [[x, y], [width, height]] = [scatter.spot(scatter.placeOf(at)), scatter.size()];
		fill(tip, facts(tongue(one.language), field && short(one.metadata[field] ?? '', 40)), one.title && h('b', one.title), passage(short(one.text, 260), [], one.language));
		tip.classList.toggle('left', x > width / 2);
		tip.classList.toggle('over', y > height / 2);
		tip.hidden = false;
		scatter.redraw();
	}

	// After each frame: elements on top of points move along; once the map rests, the list is updated.
	function drawn() {
		const put = (element, place) => {
			element.hidden = !place;
			if (place) scatter.spot(place).forEach((value, at) => element.style.setProperty(`--${'xy'[at]}`, `${value.toFixed(1)}px`));
		};
		const point = marked >= 0 && scatter.placeOf(marked);
		put(ring, point);
		put(tip, !tip.hidden && point);
		put(flag, focus?.place);
		for (const {group: one, place, element} of labels) put(element, !one.hidden && !focus && place);
		if (!focus) soon(250, show);
	}

	// Drops the query onto the map: its hits are highlighted, and the flag is at their mean, weighted by score.
	async function ask() {
		const question = written(box);
		if (!question || !places) return look();
		const {hits} = await post(path('collections', name, 'search'), {query: question}, signal);
		if (question !== written(box)) return undefined;
		const scores = new Map(hits.map(hit => [places.get(hit.id), Math.max(hit.score, 0) + 1e-9]));
		const members = [...scores.keys()].filter(at => at !== undefined);
		return look({title: 'Found', members, off: hits.length - members.length, place: members.length > 0 && middleOf(members, at => scores.get(at))});
	}

	fill(body, h('div.toolbar', model && h('div.field', box), select([['', 'Color by language'], ...fields.map(one => [one, `Color by ${one}`])], field, value => {
		field = value;
		open().catch(failed);
	}, {label: 'Color'}), check('Subtract each language’s mean', center === 'language', on => {
		center = on ? 'language' : 'none';
		open().catch(failed);
	}, 'Groups by topic instead of by language')), work, stage);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => look(focus).catch(failed), {signal});
	addEventListener('keydown', ({key}) => key === 'Escape' && !document.querySelector('dialog') && look().catch(failed), {signal});
	await open();
}
