// The search page: a question in any language, hits of all, why each was found, and two settings side by side.

import { get, path, post } from './api.js';
import { button, busy, empty, failed, fill, h, icon, languageBar, tell, hint } from './dom.js';
import { also } from './filter.js';
import { hitList } from './hits.js';
import { showRequest } from './request.js';
import { readSettings, requestOf, settingsInWords, settingsPanel, writeSettings } from './settings.js';
import { endonym, hue, languageName, link, number, plural, spoken } from './text.js';

const LISTED = 200;
// The collection that was searched last, for when the page is opened again without one.
let lastCollection = '';

export async function show(page) {
  const { collections, next_cursor: more } = await get('/v1/collections', { limit: LISTED }, page.signal);
  if (collections.length === 0 && !more) {
    fill(page.main, h('div.empty', h('h1', 'Ask in any language. Find answers in all of them.'), h('p', 'There is no collection yet. Make one, drop a file of texts on it, and come back.'),
      h('a.button.primary', { href: '#/collections' }, 'Make a collection')));
    return;
  }
  const wanted = page.args[0] || lastCollection || collections.find((one) => one.documents > 0)?.name || collections[0].name;
  const collection = collections.find((one) => one.name === wanted) ?? await get(path('collections', wanted), {}, page.signal).catch((error) => {
    if (error.status !== 404 || page.args[0]) throw error;
    return collections[0];
  });
  new Search(page, collection, collections, more).start();
}

class Search {
  constructor(page, collection, collections, more) {
    lastCollection = collection.name;
    Object.assign(this, { page, collection, collections, more });
    this.query = page.query.get('q') ?? '';
    this.like = page.query.get('like') ?? '';
    this.sides = [readSettings(page.query.get('a'))];
    if (page.query.has('b')) this.sides.push(readSettings(page.query.get('b')));
    this.fields = [...(collection.metadata_indexes ?? [])];
    this.running = null;
    this.said = h('p.said', { role: 'status', 'aria-live': 'polite' });
    this.results = h('div.results');
    this.rail = h('aside.rail', { 'aria-label': 'Settings' });
    this.top = h('div.top');
  }

  start() {
    const { page, collection } = this;
    this.box = h('input', {
      type: 'search', value: this.query, enterkeyhint: 'search', 'aria-label': 'Question',
      placeholder: collection.model ? 'Ask in any language' : 'Id of a document', oninput: (event) => this.typed(event), onkeydown: (event) => this.toHits(event),
    });
    this.box.addEventListener('compositionend', () => this.typed({}));
    const form = h('form.ask', { role: 'search', onsubmit: (event) => {
      event.preventDefault();
      clearTimeout(this.timer);
      this.search();
    } }, h('label.sr', { for: 'collection' }, 'Collection'), this.picker(), h('div.box', icon('search'), this.box, h('kbd', { 'aria-hidden': 'true' }, '/')),
    h('button.button.primary', { type: 'submit' }, 'Search'));
    fill(this.top, h('h1', 'Ask in any language. ', h('span', 'Find answers in all of them.')), form, this.said);
    fill(page.main, this.top, h('div.columns', this.results, this.rail));
    this.layout();
    if (this.query || this.like) this.search();
    else this.greet();
    if (matchMedia('(hover: hover)').matches) this.box.focus();
  }

  picker() {
    const go = (name) => { location.hash = `#/search/${encodeURIComponent(name)}${this.query ? `?q=${encodeURIComponent(this.query)}` : ''}`; };
    if (this.more || this.collections.length > 100) {
      const names = h('datalist', { id: 'collection-names' }, this.collections.map((one) => h('option', { value: one.name })));
      const box = h('input', { id: 'collection', list: 'collection-names', value: this.collection.name, onchange: () => box.value && go(box.value) });
      return h('div.pick', box, names);
    }
    const names = this.collections.map((one) => one.name);
    if (!names.includes(this.collection.name)) names.unshift(this.collection.name);
    const box = h('select', { id: 'collection', onchange: () => go(box.value), value: this.collection.name }, names.map((name) => h('option', { value: name }, name)));
    return h('div.pick', box);
  }

  /** What stands where hits will be: what there is to ask about. */
  greet() {
    const { collection } = this;
    this.top.classList.add('fresh');
    this.page.main.classList.add('new');
    this.said.textContent = '';
    if (collection.documents === 0) {
      fill(this.results, empty('Nothing to find yet', `The collection ${collection.name} has no documents.`, h('a.button.primary', { href: link('collections', collection.name) }, 'Add documents')));
      return;
    }
    const languages = spoken(collection.languages);
    fill(this.results, h('section.greet',
      h('h2', `${plural(collection.documents, 'document')} in ${plural(languages.length, 'language')}`), languageBar(collection.languages),
      h('ul.cloud', languages.slice(0, 62).map((one) => h('li', { vars: { hue: hue(one.language) } }, h('i'), h('span', { lang: one.language, dir: 'auto' }, endonym(one.language) || languageName(one.language)), h('em', number(one.documents))))),
      hint('Type a question in whichever language you like. “Words in quotes” must stand in a passage, and a -word must not.')));
  }

  layout() {
    const two = this.sides.length === 2;
    this.page.main.classList.toggle('two', two);
    const context = { collection: this.collection, languages: this.collection.languages ?? [], fields: this.fields };
    this.columns = this.sides.map((settings, at) => {
      const list = h('ol.hits');
      const note = h('p.note');
      const line = h('summary', settingsInWords(settings));
      const panel = () => settingsPanel(settings, () => { line.textContent = settingsInWords(settings); this.search(); }, context);
      const section = h('section', { 'aria-label': two ? `Setting ${'AB'[at]}` : 'Hits' }, !two && h('h2.sr', 'Hits'),
        two && h('header.side', h('h2', 'AB'[at]), h('details.panel', line, panel()), at === 1 && button('', () => this.compare(), 'plain', { sign: 'close', label: 'Back to one setting' })), note, list);
      return { list, note, section, panel };
    });
    fill(this.results, this.columns.map((one) => one.section));
    this.tally = h('section.tally', { 'aria-label': 'Hits by language' });
    const wide = matchMedia('(min-width: 60rem)').matches;
    fill(this.rail, this.tally, !two && h('details.panel', { open: wide }, h('summary', 'Settings'), this.columns[0].panel()),
      h('div.more', button(two ? 'One setting' : 'Compare two settings', () => this.compare(), '', { sign: 'sides' }),
        button('Copy the request', () => this.request(), '', { sign: 'code' })));
  }

  compare() {
    if (this.sides.length === 2) this.sides.pop();
    else this.sides.push({ ...this.sides[0], mode: this.sides[0].mode === 'full' ? 'dense' : 'full' });
    this.layout();
    if (this.box.value.trim() || this.like) this.search();
    else this.greet();
  }

  typed({ isComposing }) {
    if (isComposing) return;
    this.like = '';
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), this.box.value.trim() === '' ? 0 : 280);
  }

  /** Arrow keys lead from the box through the hits and back. */
  toHits(event) {
    if (event.key !== 'ArrowDown') return;
    const first = this.results.querySelector('.hit');
    if (first) {
      event.preventDefault();
      first.focus();
    }
  }

  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.classList.contains('hit')) return;
    const hits = [...event.currentTarget.querySelectorAll('.hit')];
    const next = hits.indexOf(event.target) + step;
    event.preventDefault();
    if (next < 0) this.box.focus();
    else hits[next]?.focus();
  }

  address() {
    const parts = new URLSearchParams();
    if (this.like) parts.set('like', this.like);
    else if (this.query) parts.set('q', this.query);
    const [a, b] = this.sides.map(writeSettings);
    if (a) parts.set('a', a);
    if (b !== undefined) parts.set('b', b);
    const text = parts.toString();
    history.replaceState(null, '', `#/search/${encodeURIComponent(this.collection.name)}${text ? `?${text}` : ''}`);
  }

  bodies() {
    const vectors = Boolean(this.like) || !this.collection.model;
    return this.sides.map((settings) => requestOf(this.like || this.query, settings, { vectors }));
  }

  request() {
    if (!this.query && !this.like) return tell('Ask something first.', 'note');
    return showRequest('POST', path('collections', this.collection.name, 'search'), this.bodies()[0]);
  }

  async search() {
    this.query = this.box.value.trim();
    this.running?.abort();
    this.address();
    if (!this.query && !this.like) {
      this.layout();
      this.greet();
      return;
    }
    this.running = new AbortController();
    const signal = AbortSignal.any([this.running.signal, this.page.signal]);
    if (this.top.classList.contains('fresh')) {
      this.top.classList.remove('fresh');
      this.page.main.classList.remove('new');
      fill(this.results, this.columns.map((one) => one.section));
    }
    this.results.setAttribute('aria-busy', 'true');
    const target = path('collections', this.collection.name, 'search');
    try {
      const answers = this.bodies().map((body) => post(target, { ...body, explain: true }, signal));
      const spoken = this.like || !this.collection.model ? null : post('/v1/detect', { texts: [this.query] }, signal).then(({ detections }) => detections[0], () => null);
      const settled = await Promise.allSettled([...answers, spoken]);
      if (signal.aborted) return;
      const asked = settled.at(-1).value ?? null;
      this.draw(settled.slice(0, -1), asked);
    } catch (error) {
      failed(error);
    } finally {
      if (!signal.aborted) this.results.removeAttribute('aria-busy');
    }
  }

  draw(answers, asked) {
    // A hit that has the focus keeps it, or gives it to the first one.
    const held = document.activeElement.closest('.hit')?.dataset.id;
    const places = answers.map(({ value }) => new Map(value?.hits.map((hit, at) => [hit.id, at + 1])));
    answers.forEach(({ value: answer, reason }, at) => {
      const { list, note } = this.columns[at];
      const settings = this.sides[at];
      note.className = 'note';
      if (!answer) {
        note.classList.add('bad');
        note.textContent = reason.story ?? reason.message;
        fill(list);
        return;
      }
      for (const hit of answer.hits) for (const name of Object.keys(hit.metadata ?? {})) if (!this.fields.includes(name)) this.fields.push(name);
      const remarks = [];
      if (answers.length > 1) remarks.push(`${plural(answer.hits.length, 'hit')}, ${answer.took_ms.toFixed(1)} ms`);
      if (answer.query_truncated) remarks.push('The query is longer than the model reads: its beginning was taken.');
      if (answer.incomplete) remarks.push('Some passages could not be read; the answer lacks them.');
      if (answer.hits.length === 0) remarks.push('Nothing is found with these settings.');
      note.textContent = remarks.join(' ');
      const dense = Boolean(this.like) || !this.collection.model;
      fill(list, hitList(answer, {
        collection: this.collection.name, mode: dense ? 'dense' : settings.mode, asked: asked?.language, rankElsewhere: answers.length > 1 && answers[1 - at].value ? (id) => places[1 - at].get(id) : null,
        narrow: (condition) => {
          for (const one of this.sides) one.filter = also(one.filter, condition);
          this.layout();
          this.search();
        },
        alike: (id) => {
          this.like = id;
          this.box.value = '';
          this.search();
          scrollTo({ top: 0 });
        },
      }));
      list.onkeydown = (event) => this.walk(event);
    });
    if (held) (this.results.querySelector(`.hit[data-id=${CSS.escape(held)}]`) ?? this.results.querySelector('.hit') ?? this.box).focus();
    this.say(answers[0].value, asked);
    this.count(answers.flatMap(({ value }) => value?.hits ?? []), answers.length);
  }

  say(answer, asked) {
    if (!answer) return fill(this.said);
    const languages = new Set(answer.hits.map((hit) => hit.language)).size;
    const spoken = asked?.language && `asked in ${languageName(asked.language)}${asked.confidence ? ` (${Math.round(asked.confidence * 100)} % sure)` : ''}`;
    const what = this.like ? ['Documents like ', h('bdi', this.like), ': '] : [];
    return fill(this.said, what, [`${plural(answer.hits.length, 'hit')} in ${plural(languages, 'language')}`, `${answer.took_ms.toFixed(1)} ms`, spoken].filter(Boolean).join(' · '));
  }

  /** How many of the hits are in which language; a click asks for that language alone. */
  count(hits, sides) {
    const counts = new Map();
    for (const { language } of hits) counts.set(language, (counts.get(language) ?? 0) + 1);
    const only = this.sides[0].languages ?? [];
    const lines = [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => {
      const on = only.length === 1 && only[0] === code;
      const bar = h('button.bar', { 'aria-pressed': String(on), disabled: !code, vars: { hue: hue(code), part: (count / hits.length).toFixed(3) },
        title: on ? 'All languages again' : `Only ${languageName(code)}`, onclick: () => busy(bar, async () => {
          for (const one of this.sides) one.languages = on ? [] : [code];
          this.layout();
          await this.search();
        }) }, h('i'), h('span', languageName(code)), h('b', count));
      return h('li', bar);
    });
    fill(this.tally, hits.length > 0 && h('h2', sides > 1 ? 'Hits of both, by language' : 'Hits by language'), h('ul', lines));
  }
}
