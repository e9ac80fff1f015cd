// The settings of a search: what they are, how the address holds them, the panel that changes them, the request they make.

import { check, choice, field, fill, h, select, hint } from './dom.js';
import { filterEditor, inWords } from './filter.js';
import { endonym, hue, languageName, number, spoken } from './text.js';

const MODES = [
  ['full', 'Full', 'All evidence: meaning, words across languages, the same words'],
  ['dense', 'Meaning', 'Compares embeddings alone'],
  ['lexical', 'Words', 'Documents that share words with the query'],
  ['hybrid', 'Hybrid', 'Meaning and words, their ranks fused'],
];

export const modeName = (mode) => MODES.find(([key]) => key === mode)?.[1] ?? 'Full';

/** Settings out of a part of the address. */
export function readSettings(text) {
  let sent = {};
  try {
    sent = JSON.parse(text || '{}');
  } catch { /* an address that somebody cut short */ }
  return { limit: 10, ...sent, mode: MODES.some(([key]) => key === sent.mode) ? sent.mode : 'full' };
}

/** The same the other way round: only what differs from the defaults. */
export function writeSettings(settings) {
  const kept = Object.entries(settings).filter(([name, value]) => value !== undefined && value !== false && value !== '' && !(Array.isArray(value) && value.length === 0)
    && !(name === 'mode' && value === 'full') && !(name === 'limit' && value === 10));
  return kept.length > 0 ? JSON.stringify(Object.fromEntries(kept)) : '';
}

/** The body of the request. What a mode does not take is left out. */
export function requestOf(query, settings, { vectors = false } = {}) {
  const { mode } = settings;
  const body = vectors ? { like: query } : { query };
  if (!vectors && mode !== 'full') body.mode = mode;
  if (settings.limit !== 10) body.limit = settings.limit;
  if (settings.languages?.length) body.languages = settings.languages;
  if (settings.filter) body.filter = settings.filter;
  if (settings.balance && !settings.margin) body.balance_languages = true;
  else if (settings.prefer) body.prefer_language = [settings.prefer];
  if (settings.minimum !== undefined && settings.minimum !== '') body.score_min = Number(settings.minimum);
  if (!vectors && mode !== 'dense') {
    if (settings.all) body.words = 'all';
    if (settings.literal) body.operators = false;
  }
  if (settings.margin && (vectors || mode === 'dense')) body.margin = { neighbors: 4 };
  if (settings.exact) body.exact = true;
  return body;
}

/** One line that says what is set besides the mode. */
export function settingsInWords(settings) {
  const parts = [`Mode ${modeName(settings.mode)}`];
  if (settings.languages?.length) parts.push(settings.languages.map(languageName).join(', '));
  if (settings.filter) parts.push(inWords(settings.filter));
  if (settings.balance) parts.push('languages take turns');
  else if (settings.prefer) parts.push(`prefers ${settings.prefer === 'auto' ? 'the query’s language' : languageName(settings.prefer)}`);
  if (settings.minimum) parts.push(`score ≥ ${settings.minimum}`);
  if (settings.all) parts.push('all words');
  return parts.join(' · ');
}

/** The panel for `settings`, which it changes; `changed` is told. */
export function settingsPanel(settings, changed, { collection, languages, fields }) {
  const place = h('div.settings');
  const set = (name, value, again) => {
    settings[name] = value;
    changed();
    if (again) build();
  };
  const build = () => {
    const words = settings.mode !== 'dense';
    const model = collection?.model !== undefined;
    const tongues = [['', 'none'], ['auto', 'the query’s own'], ...languages.map((one) => [one.language, languageName(one.language)])];
    const minimum = h('input', { type: 'number', step: '0.05', value: settings.minimum ?? '', placeholder: 'any', onchange: () => set('minimum', minimum.value === '' ? undefined : Number(minimum.value)) });
    fill(place,
      model && choice('Mode', MODES, settings.mode, (mode) => set('mode', mode, true)),
      model && hint(MODES.find(([key]) => key === settings.mode)[2]),
      check('Balance languages', settings.balance, (on) => set('balance', on, true), 'They take turns, so that none fills the page'),
      !settings.balance && field('Prefer', select(tongues, settings.prefer ?? '', (code) => set('prefer', code || undefined))),
      languagePicker(languages, settings.languages ?? [], (codes) => set('languages', codes)),
      h('details', { open: Boolean(settings.filter) }, h('summary', 'Filter'), filterEditor(settings.filter, (filter) => set('filter', filter), fields)),
      h('details', { open: Boolean(settings.minimum || settings.all || settings.literal || settings.margin || settings.exact) }, h('summary', 'More'),
        h('div.pair', field('Least score', minimum),
          field('Hits', select([10, 20, 50, 100].map((count) => [String(count), String(count)]), String(settings.limit), (count) => set('limit', Number(count))))),
        model && words && check('Demand all words', settings.all, (on) => set('all', on)),
        model && words && check('Take “quotes” and -minus as text', settings.literal, (on) => set('literal', on)),
        (!model || settings.mode === 'dense') && check('Margin scoring', settings.margin, (on) => set('margin', on), 'Makes scores of different queries comparable'),
        settings.mode !== 'lexical' && check('Compare with everything', settings.exact, (on) => set('exact', on), 'Exact, and slow in a large collection')),
    );
  };
  build();
  return place;
}

/** Languages to tick; none ticked means all. */
export function languagePicker(languages, chosen, changed) {
  const taken = new Set(chosen);
  const known = spoken(languages);
  for (const code of taken) if (!known.some((one) => one.language === code)) known.push({ language: code, documents: 0 });
  const summary = h('summary');
  const title = () => { summary.textContent = taken.size === 0 ? `Languages: all ${known.length}` : `Languages: ${[...taken].map(languageName).join(', ')}`; };
  title();
  return h('details', { open: taken.size > 0 }, summary, h('div.ticks', known.map((one) => {
    const box = h('input', { type: 'checkbox', checked: taken.has(one.language), onchange: () => {
      if (box.checked) taken.add(one.language);
      else taken.delete(one.language);
      title();
      changed([...taken]);
    } });
    const own = endonym(one.language);
    return h('label', { vars: { hue: hue(one.language) } }, box, h('i'), h('span', languageName(one.language), own && own !== languageName(one.language) && h('small', { lang: one.language, dir: 'auto' }, own)), h('em', number(one.documents)));
  })));
}
