// Hits as cards: text, metadata, why it was found.

import {get, path} from './api.js';
import {button, busy, dialog, facts, fill, h, hint, icon, marked, meter, passage, said, tongue} from './dom.js';
import {languageName, number, ordinal, pieces, score, short, when} from './text.js';

const EVIDENCE = [
	['dense', 'Meaning', 'How close the embeddings of query and passage are', 'similarity'],
	['late', 'Similar words', 'Matches each query token with the nearest passage token, in any language', 'similarity'],
	['translated', 'Words and translations', 'Words, their translations, names that sound alike', 'share'],
	['lexical', 'The same words', 'Words in both; rare words count more (BM25)', 'BM25'],
];

// The hits of a response. `asked` is the query's language, `rankElsewhere` returns a hit's rank in the other response; `narrow` gets a
// condition for the filter, `alike` an id.
export function hitList({hits}, context) {
	const top = Math.max(...hits.map(hit => hit.score), 0.000001);
	// The best value per ranking, for comparable bars.
	const tops = {};
	for (const {explanation} of hits) for (const [list, {score: value}] of Object.entries(explanation ?? {})) tops[list] = Math.max(tops[list] ?? 0, value);
	return hits.map((hit, at) => card(hit, {...context, tops, top, place: at + 1}));
}

function card(hit, context) {
	const {collection, mode, narrow, alike, top, place} = context;
	const relative = mode === 'full' || mode === 'dense' ? hit.score : hit.score / top;
	const reasons = h('div.why', {hidden: true});
	const why = button('Why?', () => {
		reasons.hidden = !reasons.hidden;
		why.ariaExpanded = String(!reasons.hidden);
		if (!reasons.hasChildNodes()) fill(reasons, explain(hit, context));
	}, 'small', {'aria-expanded': 'false', title: 'Why was this hit found?'});
	const open = button('Open', () => openDocument(collection, hit.id, hit.passage), 'small', {label: `Open document ${hit.id}`});
	return h('li', h('article.hit', {tabindex: '-1', 'data-id': hit.id, onkeydown: event => {
		if (event.target !== event.currentTarget || event.key !== 'Enter') return;
		event.preventDefault();
		open.click();
	}},
		h('header', h('span.rank', place), tongue(hit.language), moved(hit, context),
			h('span.score', {title: `score ${hit.score}`}, meter(relative), h('b', score(hit.score)), h('span.sr', ' score'))),
		hit.title && said('h3', hit.language, marked(hit.title, hit.title_marks)),
		hit.passage?.text ? passage(hit.passage.text, hit.passage.marks, hit.language) : noText(),
		h('footer', h('span.id', {title: hit.id}, hit.id), chips(hit.metadata, narrow),
			h('span.tools', why, alike && button('Similar', () => alike(hit.id), 'small', {title: 'Documents like this one'}), open)),
		reasons));
}

export const noText = () => h('p.passage.none', 'A vector without a text.');

// The change of rank from the other settings.
function moved(hit, {rankElsewhere, place}) {
	if (!rankElsewhere) return null;
	const by = rankElsewhere(hit.id) - place;
	if (Number.isNaN(by)) return h('span.move.new', 'only here');
	if (by === 0) return h('span.move', 'same place');
	return h(`span.move.${by > 0 ? 'up' : 'down'}`, icon(by > 0 ? 'up' : 'down'), Math.abs(by), h('span.sr', ` places ${by > 0 ? 'higher' : 'lower'} than in the other list`));
}

// The field of a metadata key in a filter.
const fieldOf = key => (/[\\.]|^(id|language|(cre|upd)ated_at)$/.test(key) ? `metadata.${key.replace(/[\\.]/g, '\\$&')}` : key);

export function chips(metadata, narrow, most = 6) {
	const entries = Object.entries(metadata ?? {});
	return h('span.chips', entries.slice(0, most).map(([field, value]) => {
		const text = [h('span', field), ' ', h('bdi', short(value, 32))];
		const all = [value].flat();
		if (!narrow || !all.length || all.some(one => typeof one === 'object')) return h('span.chip', text);
		return h('button.chip', {title: 'Only documents with this value', onclick: () => narrow({field: fieldOf(field), [Array.isArray(value) ? 'any' : 'eq']: value})}, text);
	}), entries.length > most && h('span.chip', `+${entries.length - most}`));
}

function explain({language, title, title_marks, passage: found, explanation = {}, score: total}, {tops, mode, asked}) {
	const lists = EVIDENCE.filter(([list]) => list in tops);
	const by = EVIDENCE.filter(([list]) => explanation[list]).map(([, name]) => name.toLowerCase());
	const words = new Set([...pieces(title, title_marks), ...pieces(found?.text, found?.marks)].filter(one => one.marked).map(one => one.text));
	return [
		h('p', by.length === 0 ? 'Found by a part of the query as written.' : `Found by ${new Intl.ListFormat('en').format(by)}.`,
			asked && language && asked !== language && ` You asked in ${languageName(asked)}; this document is in ${languageName(language)}.`),
		h('dl', lists.map(([list, name, title, unit]) => {
			const one = explanation[list];
			return h(one ? 'div' : 'div.not', h('dt', {title}, name),
				h('dd', meter(one && one.score / (list === 'dense' ? 1 : tops[list])), h('span', one ? `${ordinal(one.rank)} · ${unit} ${score(one.score)}` : 'not among its candidates')));
		})),
		mode === 'full' && hint(`Together they give a relevance of ${score(total)}: how likely the passage answers.`),
		words.size > 0 && h('p.words', 'Matching words: ', [...words].slice(0, 24).map(word => [said('mark', language, word), ' '])),
	];
}

// A dialog that loads its content.
export const reading = (title, read) => dialog(title, () => {
	const place = h('div.document', hint('Reading…'));
	busy(place, async () => fill(place, await read()));
	return place;
}, 'wide');

export const openDocument = (collection, id, found) => reading(id, async () => {
	const one = await get(path('collections', collection, 'documents', id));
	const parts = marked(one.text, found && [found], 'mark.soft');
	setTimeout(() => parts.find(part => part.scrollIntoView)?.scrollIntoView({block: 'center'}));
	return [
		facts(tongue(one.language), one.language_confidence !== undefined && `Language detected: ${Math.round(one.language_confidence * 100)} % sure`, `Passages: ${number(one.passages)}`, `Written: ${when(one.updated_at)}`, `Version: ${number(one.version)}`, one.expires_at && `Expires: ${when(one.expires_at)}`,
			!one.indexed && h('span.state.warn', 'not embedded yet')),
		one.title && said('h3', one.language, one.title), said('p.passage.whole', one.language, parts),
		h('h3', 'Metadata'), h('pre', {tabindex: '0'}, JSON.stringify(one.metadata, null, 2))];
});
