// The settings of a search: defaults, form in the address, panel, and request.

import {check, field, fill, h, select, tongue} from './dom.js';
import {filterEditor, inWords} from './filter.js';
import {languageName, number, spoken} from './text.js';

const MODES = [
	['full', 'Full', 'Combines meaning, similar words and translations'],
	['dense', 'Meaning', 'Compares only embeddings'],
	['lexical', 'Words', 'Documents that share words with the query'],
	['hybrid', 'Hybrid', 'Fuses the ranks of meaning and words'],
];
const DEFAULTS = {limit: 10, mode: 'full'};
const modeOf = settings => MODES.find(([key]) => key === settings.mode) ?? MODES[0];

export function readSettings(text) {
	let sent = {};
	try {
		sent = JSON.parse(text || '{}');
	} catch { /* a truncated address */ }
	return {...DEFAULTS, ...sent, mode: modeOf(sent)[0]};
}

// The inverse: writes only what differs from the defaults.
export function writeSettings(settings) {
	const kept = Object.entries(settings).filter(([name, value]) => (value || value === 0) && value.length !== 0 && value !== DEFAULTS[name]);
	return kept.length > 0 ? JSON.stringify(Object.fromEntries(kept)) : '';
}

// The body of the request, without settings that the mode does not accept.
export function requestOf(query, settings, {vectors = false} = {}) {
	const {mode, limit, languages, filter, balance, prefer, minimum, all, literal, margin, exact} = settings;
	const dense = vectors || mode === 'dense';
	return {
		...(vectors ? {like: query} : {query}),
		mode: vectors || mode === DEFAULTS.mode ? undefined : mode,
		limit: limit === DEFAULTS.limit ? undefined : limit,
		languages: languages?.length ? languages : undefined,
		filter,
		balance_languages: balance && !margin || undefined,
		prefer_language: prefer && !balance ? [prefer] : undefined,
		score_min: minimum,
		words: all && !dense ? 'all' : undefined,
		operators: literal && !dense ? false : undefined,
		margin: margin && dense ? {neighbors: 4} : undefined,
		exact: exact || undefined,
	};
}

export const settingsInWords = settings => [modeOf(settings)[1], inWords(settings.filter), ...settings.languages?.map(languageName) ?? []].filter(Boolean).join(' · ');

// The panel for `settings`; it changes them and calls `changed`.
export function settingsPanel(settings, changed, {collection, languages, fields}) {
	const place = h('div.settings');
	const set = (name, again) => value => {
		settings[name] = value;
		changed();
		if (again) build();
	};
	const tick = (label, name, help, again) => check(label, settings[name], set(name, again), help);
	const build = () => {
		const {mode, minimum} = settings;
		const model = collection.model !== undefined;
		const words = model && mode !== 'dense';
		const tongues = [['', 'none'], ['auto', 'the query’s own'], ...spoken(languages).map(one => [one.language, languageName(one.language)])];
		const least = h('input', {type: 'number', step: '0.05', value: minimum ?? '', placeholder: 'any', onchange: () => set('minimum')(least.value === '' ? undefined : Number(least.value))});
		fill(place,
			model && field('Mode', select(MODES, mode, set('mode', true)), modeOf(settings)[2]),
			tick('Balance languages', 'balance', 'Languages take turns on the page', true),
			!settings.balance && field('Prefer', select(tongues, settings.prefer, set('prefer'))),
			languagePicker(languages, settings.languages ?? [], set('languages')),
			h('details', {open: Boolean(settings.filter)}, h('summary', 'Filter'), filterEditor(settings.filter, set('filter'), fields)),
			h('details', {open: Boolean(minimum || settings.all || settings.literal || settings.margin || settings.exact)}, h('summary', 'More'),
				h('div.pair', field('Minimum score', least), field('Hits', select([10, 20, 50, 100], settings.limit, count => set('limit')(Number(count))))),
				words && [tick('Require all words', 'all'), tick('Treat “quotes” and -minus as text', 'literal')],
				(!model || mode === 'dense') && tick('Margin scoring', 'margin', 'Makes scores of different queries comparable'),
				mode !== 'lexical' && tick('Exact search', 'exact', 'Slow in a large collection')),
		);
	};
	build();
	return place;
}

// Languages to select; none selected means all.
function languagePicker(languages, chosen, changed) {
	const taken = new Set(chosen);
	const counts = new Map([...chosen.map(code => [code, 0]), ...spoken(languages).map(one => [one.language, one.documents])]);
	const summary = h('summary');
	const title = () => { summary.textContent = `Languages: ${taken.size === 0 ? `all ${counts.size}` : [...taken].map(languageName).join(', ')}`; };
	title();
	return h('details', {open: taken.size > 0}, summary, h('div.ticks', [...counts].map(([code, count]) => check(tongue(code), taken.has(code), on => {
		taken[on ? 'add' : 'delete'](code);
		title();
		changed([...taken]);
	}, number(count)))));
}
