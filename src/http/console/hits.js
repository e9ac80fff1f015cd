// Hits as cards: language, score, the passage with its marks, and why it was found.

import { get, path } from './api.js';
import { button, busy, dialog, fill, h, icon, meter, passage, tongue, hint } from './dom.js';
import { around, languageName, number, ordinal, pieces, score, short, when } from './text.js';

const EVIDENCE = [
  ['dense', 'Meaning', 'How near the embeddings of query and passage are', 'similarity'],
  ['late', 'Words across languages', 'Each token of the query with the nearest of the passage, in any language', 'sum'],
  ['lexical', 'The same words', 'Words that stand in both, rare ones count more (BM25)', 'BM25'],
];

/** The best value of each list among the hits, so that bars can be compared. */
function best(hits) {
  const found = {};
  for (const hit of hits) {
    for (const [list, { score: value }] of Object.entries(hit.explanation ?? {})) found[list] = Math.max(found[list] ?? 0, value);
  }
  return found;
}

/**
 * The hits of an answer. `asked` is the language of the query; `rankElsewhere` gives a hit's place in the other answer when two
 * are compared; `narrow` is called with a condition for the filter, `alike` with an id.
 */
export function hitList(answer, { collection, mode, asked, rankElsewhere, narrow, alike, rank = 1 }) {
  const tops = best(answer.hits);
  const top = Math.max(...answer.hits.map((hit) => hit.score), 0.000001);
  return answer.hits.map((hit, at) => card(hit, { collection, mode, asked, rankElsewhere, narrow, alike, tops, top, place: rank + at }));
}

function card(hit, context) {
  const { collection, mode, narrow, alike, top, place } = context;
  const relative = mode === 'full' || mode === 'dense' ? hit.score : hit.score / top;
  const reasons = h('div.why', { hidden: true });
  const why = h('button.button.small', { 'aria-expanded': 'false', title: 'Why was this hit found?', onclick: () => {
    reasons.hidden = !reasons.hidden;
    why.setAttribute('aria-expanded', String(!reasons.hidden));
    if (!reasons.hidden && !reasons.hasChildNodes()) reasons.append(...explain(hit, context));
  } }, icon('why'), 'Why?');
  const open = button('Open', () => openDocument(collection, hit.id, hit.passage), 'small', { sign: 'open', label: `Open document ${hit.id}` });
  return h('li', h('article.hit', { tabindex: '-1', 'data-id': hit.id, onkeydown: (event) => {
    if (event.target !== event.currentTarget || event.key !== 'Enter') return;
    event.preventDefault();
    open.click();
  } },
    h('header', h('span.rank', place), tongue(hit.language), moved(hit, context),
      h('span.score', { title: `score ${hit.score}` }, meter(relative), h('b', score(hit.score)), h('span.sr', ' score'))),
    hit.title && h('h3', { dir: 'auto', lang: hit.language ?? 'und' }, hit.title),
    hit.passage?.text ? passage(hit.passage.text, hit.passage.marks, hit.language) : h('p.passage.none', 'An embedding without a text.'),
    h('footer', h('span.id', { dir: 'auto', title: 'id of the document' }, hit.id), chips(hit.metadata, narrow),
      h('span.tools', why, alike && button('Similar', () => alike(hit.id), 'small', { sign: 'like', title: 'Documents like this one' }), open)),
    reasons));
}

/** Whether the other setting has this hit elsewhere. */
function moved(hit, { rankElsewhere, place }) {
  if (!rankElsewhere) return null;
  const other = rankElsewhere(hit.id);
  if (other === undefined) return h('span.move.new', 'only here');
  const by = other - place;
  if (by === 0) return h('span.move', 'same place');
  return h(`span.move.${by > 0 ? 'up' : 'down'}`, icon(by > 0 ? 'up' : 'down'), `${Math.abs(by)}`, h('span.sr', by > 0 ? ' places higher than beside' : ' places lower than beside'));
}

/** Metadata as chips; a click makes it a condition. */
export function chips(metadata, narrow, most = 6) {
  const entries = Object.entries(metadata ?? {});
  return h('span.chips', entries.slice(0, most).map(([name, value]) => {
    const text = [h('span', name), ' ', h('bdi', short(value, 32))];
    const plain = ['string', 'number', 'boolean'].includes(typeof value);
    if (!narrow || !plain) return h('span.chip', text);
    return h('button.chip', { title: 'Only documents with this value', onclick: () => narrow({ field: name, eq: value }) }, text);
  }), entries.length > most && h('span.chip', `+${entries.length - most}`));
}

/** Why a hit was found: each kind of evidence with its rank and score, the words that answer, the languages. */
function explain(hit, { tops, mode, asked }) {
  const found = EVIDENCE.filter(([list]) => hit.explanation?.[list]);
  const lists = EVIDENCE.filter(([list]) => mode === 'full' || (mode === 'hybrid' ? list !== 'late' : list === mode));
  const marked = hit.passage ? [...new Set(pieces(hit.passage.text, hit.passage.marks).filter((one) => one.marked).map((one) => one.text))] : [];
  const sentence = found.length === 0
    ? 'The answer carries no explanation for this mode.'
    : `Found by ${found.map(([list, name]) => `${name.toLowerCase()} (${ordinal(hit.explanation[list].rank)} of its list)`).join(', ').replace(/, ([^,]*)$/, ' and $1')}.`;
  const across = asked && hit.language && asked !== hit.language
    ? `You asked in ${languageName(asked)}; this document is in ${languageName(hit.language)}. Nothing was translated: both became points in one space, and they are near.` : '';
  return [
    h('p', sentence, across && ` ${across}`),
    h('dl', lists.map(([list, name, says, unit]) => {
      const one = hit.explanation?.[list];
      return h(one ? 'div' : 'div.not', h('dt', { title: says }, name),
        h('dd', meter(one ? one.score / (list === 'dense' ? 1 : tops[list]) : 0), h('span', one ? `${ordinal(one.rank)} · ${unit} ${score(one.score)}` : 'not among its candidates')));
    })),
    mode === 'full' && hint(`Together that makes a relevance of ${score(hit.score)}: how likely the passage answers.`),
    marked.length > 0 && h('p.words', 'Words that answer: ', marked.slice(0, 24).map((word) => [h('mark', { dir: 'auto', lang: hit.language ?? 'und' }, word), ' '])),
  ].filter(Boolean);
}

/** Shows a whole document, a passage of it marked. */
export function openDocument(collection, id, found) {
  return dialog(id, () => {
    const place = h('div.document', { 'aria-busy': 'true' }, hint('Reading…'));
    busy(h('i'), async () => {
      const one = await get(path('collections', collection, 'documents', id));
      const [before, within, after] = found ? around(one.text, found.start, found.end) : [one.text, '', ''];
      place.removeAttribute('aria-busy');
      const facts = [['Passages', number(one.passages)], ['Written', when(one.updated_at)], ['Version', number(one.version)]];
      if (one.language_confidence !== undefined) facts.unshift(['Language detected', `${Math.round(one.language_confidence * 100)} % sure`]);
      fill(place,
        h('p.facts', tongue(one.language), facts.map(([name, value]) => h('span', `${name}: ${value}`)), !one.indexed && h('span.state.warn', 'waits for its embedding')),
        one.title && h('h3', { dir: 'auto', lang: one.language ?? 'und' }, one.title),
        h('p.passage.whole', { dir: 'auto', lang: one.language ?? 'und' }, before, within && h('mark.soft', within), after),
        h('h3', 'Metadata'), h('pre', { tabindex: '0' }, JSON.stringify(one.metadata, null, 2)));
      place.querySelector('mark')?.scrollIntoView({ block: 'center' });
    });
    return place;
  }, 'wide');
}
