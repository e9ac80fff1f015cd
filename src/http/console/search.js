// The search page: a query in any language, hits in all, two settings side by side.

import {get, path, post} from './api.js';
import {busy, button, empty, failed, fill, form, h, hint, icon, languageBar, pickCollection, said, tell, written} from './dom.js';
import {also} from './filter.js';
import {hitList} from './hits.js';
import {showRequest} from './request.js';
import {readSettings, requestOf, settingsInWords, settingsPanel, writeSettings} from './settings.js';
import {endonym, hue, languageName, link, number, plural, spoken} from './text.js';

const LISTED = 200;
const TYPING_MS = 280;
// The collection that was searched last, for a page without one.
let lastCollection = '';

export async function show(page) {
	const known = await get('v1/collections', {limit: LISTED}, page.signal);
	const {collections} = known;
	if (collections.length === 0) {
		fill(page.main, h('div.empty', h('h1', 'Ask in any language. Find answers in all of them.'), h('p', 'There is no collection yet. Create one, import a file of texts, and come back.'),
			h('a.button.primary', {href: '#/collections'}, 'Create a collection')));
		return;
	}
	const first = collections.find(one => one.documents > 0) ?? collections[0];
	const wanted = page.args[0] || lastCollection || first.name;
	const collection = collections.find(one => one.name === wanted) ?? await get(path('collections', wanted), {}, page.signal).catch(error => {
		if (error.status !== 404 || page.args[0]) throw error;
		return first;
	});
	lastCollection = collection.name;
	search(page, collection, known);
}

function search({main, query, signal}, collection, known) {
	const {name, languages, model, documents} = collection;
	const here = parts => link('search', name) + `?${new URLSearchParams(parts)}`.replace(/\?$/, '');
	const fields = new Set(collection.metadata_indexes);
	const sides = [readSettings(query.get('a')), ...(query.has('b') ? [readSettings(query.get('b'))] : [])];
	let question = query.get('q') ?? '';
	let like = query.get('like') ?? '';
	let running;
	let timer;
	let columns;
	let tally;
	// Without a model, or with a document as the query, only embeddings are compared.
	const vectors = () => Boolean(like) || !model;
	const bodies = () => sides.map(settings => requestOf(like || question, settings, {vectors: vectors()}));

	const results = h('div.results', {onkeydown: event => {
		const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
		if (!step || !event.target.classList.contains('hit')) return;
		const hits = [...event.target.closest('.hits').querySelectorAll('.hit')];
		event.preventDefault();
		(hits.indexOf(event.target) + step < 0 ? box : hits[hits.indexOf(event.target) + step])?.focus();
	}});
	const says = h('p.said', {role: 'status'});
	const rail = h('aside.rail', {label: 'Settings'});
	const typed = ({isComposing}) => {
		if (isComposing) return;
		like = '';
		clearTimeout(timer);
		timer = setTimeout(run, written(box) === '' ? 0 : TYPING_MS);
	};
	const box = h('input', {type: 'search', value: question, enterkeyhint: 'search', label: 'Question', placeholder: model ? 'Ask in any language' : 'Id of a document', oninput: typed, oncompositionend: () => typed({}), onkeydown: event => {
		const first = event.key === 'ArrowDown' && results.querySelector('.hit');
		if (!first) return;
		event.preventDefault();
		first.focus();
	}});
	const ask = form(() => {
		clearTimeout(timer);
		run();
	}, h('label.sr', {for: 'collection'}, 'Collection'), h('div.pick', pickCollection(known, name, value => { location.hash = `${link('search', value)}${question && `?q=${encodeURIComponent(question)}`}`; }, {id: 'collection'})),
	h('div.box', icon('search'), box), h('button.button.primary', {type: 'submit'}, 'Search'));
	ask.className = 'ask';
	ask.role = 'search';
	const top = h('div.top', h('h1', 'Ask in any language. ', h('span', 'Find answers in all of them.')), ask, says);

	// Before the first query: shows what can be searched.
	function greet(fresh) {
		top.classList.toggle('fresh', fresh);
		main.classList.toggle('new', fresh);
		if (!fresh) return;
		const known = spoken(languages);
		fill(says);
		fill(results, documents === 0 ? empty('Nothing to find yet', `The collection ${name} has no documents.`, h('a.button.primary', {href: link('collections', name)}, 'Add documents'))
			: h('section.greet', h('h2', `${plural(documents, 'document')} in ${plural(known.length, 'language')}`), languageBar(languages),
				h('ul.cloud', known.map(({language, documents: count}) => h('li', {vars: {hue: hue(language)}}, h('i'), said('span', language, endonym(language) || languageName(language)), h('em', number(count))))),
				hint('Type a question in any language. A passage must have “words in quotes” and must not have a -word.')));
	}

	function layout() {
		const two = sides.length === 2;
		main.classList.toggle('two', two);
		columns = sides.map((settings, at) => {
			const list = h('ol.hits');
			const note = h('p.note');
			const line = h('summary', settingsInWords(settings));
			const panel = settingsPanel(settings, () => {
				line.textContent = settingsInWords(settings);
				run();
			}, {collection, languages, fields});
			return {list, note, panel, section: h('section', {label: two ? `Setting ${'AB'[at]}` : 'Hits'},
				two ? h('header.side', h('h2', 'AB'[at]), h('details.panel', line, panel), at === 1 && button('', compare, 'plain', {sign: 'close', label: 'Back to one setting'})) : h('h2.sr', 'Hits'), note, list)};
		});
		tally = h('section.tally', {label: 'Hits by language'});
		fill(results, columns.map(one => one.section));
		fill(rail, tally, !two && h('details.panel', {open: matchMedia('(min-width: 60rem)').matches}, h('summary', 'Settings'), columns[0].panel),
			h('div.more', button(two ? 'One setting' : 'Compare two settings', compare),
				button('Copy the request', () => (question || like ? showRequest(path('collections', name, 'search'), bodies()[0]) : tell('Ask something first.', 'note')))));
	}

	function compare() {
		if (sides.length === 2) sides.pop();
		else sides.push({...sides[0], mode: sides[0].mode === 'full' ? 'dense' : 'full'});
		again();
	}

	// Updates the page after the settings changed outside of their panel.
	function again() {
		layout();
		return run();
	}

	const run = () => find().catch(failed);

	async function find() {
		question = written(box);
		running?.abort();
		const [a, b] = sides.map(writeSettings);
		history.replaceState(null, '', here({...(like ? {like} : question && {q: question}), ...(a && {a}), ...(b !== undefined && {b})}));
		if (!question && !like) {
			layout();
			greet(true);
			return;
		}
		if (top.classList.contains('fresh')) {
			greet(false);
			fill(results, columns.map(one => one.section));
		}
		running = new AbortController();
		const stop = AbortSignal.any([running.signal, signal]);
		results.ariaBusy = 'true';
		const answers = bodies().map(body => post(path('collections', name, 'search'), {...body, explain: true}, stop));
		const detected = vectors() ? null : post('v1/detect', {texts: [question]}, stop).then(({detections: [one]}) => (one.confidence < 0.5 ? null : one), () => null);
		const settled = await Promise.allSettled([...answers, detected]);
		if (stop.aborted) return;
		results.ariaBusy = null;
		draw(settled.slice(0, -1), settled.at(-1).value);
	}

	function draw(answers, asked) {
		// A focused hit keeps the focus, or the first one gets it.
		const held = document.activeElement.closest('.hit')?.dataset.id;
		const places = answers.map(({value}) => new Map(value?.hits.map((hit, at) => [hit.id, at + 1])));
		answers.forEach(({value: answer, reason}, at) => {
			const {list, note} = columns[at];
			note.classList.toggle('bad', !answer);
			if (!answer) {
				note.textContent = reason.story ?? reason.message;
				fill(list);
				return;
			}
			for (const field of answer.hits.flatMap(hit => Object.keys(hit.metadata ?? {}))) fields.add(field);
			note.textContent = [answers.length > 1 && `${plural(answer.hits.length, 'hit')}, ${answer.took_ms.toFixed(1)} ms`,
				answer.query_truncated && 'The query is too long for the model, which read its beginning.',
				answer.incomplete && 'The index is catching up: some documents may be missing.',
				answer.hits.length === 0 && 'Nothing was found with these settings.'].filter(Boolean).join(' ');
			fill(list, hitList(answer, {
				collection: name, mode: vectors() ? 'dense' : sides[at].mode, asked: asked?.language, rankElsewhere: answers[1 - at]?.value && (id => places[1 - at].get(id)),
				narrow: condition => {
					for (const one of sides) one.filter = also(one.filter, condition);
					again();
				},
				alike: id => {
					like = id;
					box.value = '';
					run();
					scrollTo({top: 0});
				},
			}));
		});
		if (held) (results.querySelector(`.hit[data-id=${CSS.escape(held)}]`) ?? results.querySelector('.hit') ?? box).focus();
		const {hits, took_ms: took} = answers[0].value ?? {};
		fill(says, hits && [like && ['Documents like ', h('bdi', like), ': '], [`${plural(hits.length, 'hit')} in ${plural(new Set(hits.flatMap(hit => hit.language ?? [])).size, 'language')}`, `${took.toFixed(1)} ms`,
			asked?.language && `asked in ${languageName(asked.language)}${asked.confidence ? ` (${Math.round(asked.confidence * 100)} % sure)` : ''}`].filter(Boolean).join(' · ')]);
		count(answers.flatMap(({value}) => value?.hits ?? []));
	}

	// Counts the hits by language; a click restricts the search to that language.
	function count(hits) {
		const counts = Map.groupBy(hits, hit => hit.language);
		const only = sides[0].languages ?? [];
		const lines = [...counts].sort((a, b) => b[1].length - a[1].length).map(([code, {length}]) => {
			const on = only.length === 1 && only[0] === code;
			const bar = h('button.share', {'aria-pressed': String(on), disabled: !code, vars: {hue: hue(code), part: length / hits.length}, title: on ? 'All languages again' : `Only ${languageName(code)}`, onclick: () => busy(bar, () => {
				for (const one of sides) one.languages = on ? [] : [code];
				return again();
			})}, h('i'), h('span', languageName(code)), h('b', length));
			return h('li', bar);
		});
		fill(tally, hits.length > 0 && h('h2', sides.length > 1 ? 'Hits of both, by language' : 'Hits by language'), h('ul', lines));
	}

	fill(main, top, h('div.columns', results, rail));
	layout();
	if (question || like) run();
	else greet(true);
	if (matchMedia('(hover: hover)').matches) box.focus();
}
