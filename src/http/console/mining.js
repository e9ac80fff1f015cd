// Mining translation pairs: starting a job, and reviewing its pairs one by one, by key.

import { get, lines, path, post, save } from './api.js';
import { button, empty, field, fill, h, head, icon, may, passage, select, tongue } from './dom.js';
import { card, showJob } from './jobs.js';
import { languageName, number, plural, score, short, spoken } from './text.js';

const PAIRS_MOST = 20000;

export async function show(page) {
  if (page.args[0]) await review(page, page.args[0]);
  else await overview(page);
}

async function overview({ main, signal }) {
  const [{ collections }, { jobs }] = await Promise.all([get('/v1/collections', { limit: 200 }, signal), get('/v1/jobs', { type: 'mine', limit: 30 }, signal)]);
  const usable = collections.filter((one) => one.documents > 0);
  fill(main, head('Mining', 'Finds sentences that say the same in two languages, by how they stand out among their neighbors.'),
    may('write') && (usable.length === 0 ? empty('Nothing to mine', 'Make a collection with documents in two languages first.') : form(usable)),
    jobs.length > 0 && h('section.stack', h('h2', 'Jobs'), h('ul.jobs', jobs.map((job) => card(job).element))));
}

function form(collections) {
  const side = (name, rank) => {
    const place = h('div.pair');
    const chosen = { collection: collections[0].name, language: spoken(collections[0].languages)[rank]?.language ?? '' };
    const draw = () => {
      const one = collections.find(({ name: each }) => each === chosen.collection);
      const options = [['', 'all languages'], ...spoken(one.languages).map((each) => [each.language, `${languageName(each.language)} (${number(each.documents)})`])];
      fill(place, field(`${name} side`, select(collections.map((each) => [each.name, each.name]), chosen.collection, (value) => { chosen.collection = value; chosen.language = ''; draw(); })),
        field('Language', select(options, chosen.language, (value) => { chosen.language = value; })));
    };
    draw();
    return { place, body: () => ({ collection: chosen.collection, ...(chosen.language && { languages: [chosen.language] }) }) };
  };
  const [first, second] = [side('First', 0), side('Second', 1)];
  const threshold = h('input', { type: 'number', step: '0.01', value: '1.1' });
  const neighbors = h('input', { type: 'number', min: 1, max: 64, value: '4' });
  return h('section.card', h('div.split', first.place, second.place), h('div.pair',
    field('Least score', threshold, 'Above 1, the two are nearer to each other than to their neighbors'), field('Neighbors', neighbors, 'Each side needs as many sentences')),
  h('div', button('Find pairs', async () => {
    const job = await post('/v1/mine', { first: first.body(), second: second.body(), neighbors: Number(neighbors.value), ...(threshold.value && { threshold: Number(threshold.value) }) });
    location.hash = `#/mining/${job.id}`;
  }, 'primary')));
}

async function review({ main, signal }, id) {
  const first = await get(path('jobs', id), {}, signal);
  const place = h('div.stack');
  fill(main, head('Review pairs', null, h('a.button', { href: '#/mining' }, 'All mining')), place);
  const job = first.status === 'succeeded' ? first : await showJob(place, first, signal);
  if (job.status !== 'succeeded') return;
  const { lines: pairs, more } = await lines(path('jobs', id, 'pairs'), { signal, most: PAIRS_MOST });
  if (pairs.length === 0) fill(place, empty('No pairs', 'No two sentences stand out enough. Try a lower least score.'));
  else new Review(place, id, pairs, more, signal).draw();
}

class Review {
  constructor(place, id, pairs, more, signal) {
    Object.assign(this, { place, id, pairs, more, at: 0 });
    this.slot = `dragoman.review.${id}`;
    // Only the places of pairs and the decisions, so that a page loaded again goes on where it was; no text and no key.
    this.decided = new Map(JSON.parse(sessionStorage.getItem(this.slot) ?? '[]'));
    this.low = pairs.at(-1).score;
    this.high = pairs[0].score;
    this.threshold = this.low;
    addEventListener('keydown', (event) => this.key(event), { signal });
    this.at = Math.max(0, pairs.findIndex((_, at) => !this.decided.has(at)));
    this.count = h('output.hint');
    this.now = h('article.card.review', { 'aria-live': 'polite' });
    this.queue = h('ol.queue.card');
    this.slider = h('input', { type: 'range', min: this.low, max: this.high, step: (this.high - this.low) / 500 || 0.001, value: this.low, oninput: () => {
      this.threshold = Number(this.slider.value);
      this.draw();
    } });
    fill(place, more && h('p.notice', `Only the best ${number(PAIRS_MOST)} pairs are shown. All of them: GET ${path('jobs', id, 'pairs')}`),
      this.now, h('div.line', this.say('Accept', 'A', 'accepted', 'check'), this.say('Reject', 'R', 'rejected', 'close'), this.say('Back', 'U', 'back', 'up'), this.count, h('span.actions',
        button('Save accepted as TSV', () => this.save(), '', { sign: 'down' }))),
      h('section.card', field('Least score', this.slider)), h('h2', 'What comes next'), this.queue);
  }

  say(label, letter, action, sign) {
    return h('button.button', { 'aria-keyshortcuts': letter, onclick: () => this.decide(action) }, icon(sign), label, h('kbd', { 'aria-hidden': 'true' }, letter));
  }

  key(event) {
    if (event.target.closest('input[type=text], textarea, select, dialog') || event.ctrlKey || event.metaKey || event.altKey) return;
    const slides = event.target === this.slider;
    const action = { a: 'accepted', r: 'rejected', u: 'back', ...(!slides && { ArrowRight: 'accepted', ArrowLeft: 'rejected' }) }[event.key];
    if (!action) return;
    event.preventDefault();
    this.decide(action);
  }

  kept() {
    const end = this.pairs.findIndex((pair) => pair.score < this.threshold);
    return end === -1 ? this.pairs.length : end;
  }

  decide(action) {
    if (action === 'back') this.at = Math.max(0, this.at - 1);
    else if (this.at < this.kept()) {
      this.decided.set(this.at, action);
      this.at += 1;
    }
    sessionStorage.setItem(this.slot, JSON.stringify([...this.decided]));
    this.draw();
  }

  draw() {
    const kept = this.kept();
    const tally = (what) => [...this.decided].filter(([at, one]) => at < kept && one === what).length;
    const pair = this.at < kept ? this.pairs[this.at] : null;
    const decision = this.decided.get(this.at) ?? '';
    this.now.className = `card review ${decision}`;
    const half = (side) => h('div', tongue(side.language), passage(side.text, [], side.language), h('span.mono.hint', { dir: 'auto' }, short(side.id ?? '', 60)));
    fill(this.now, pair ? [h('p.line', h('b', `Pair ${number(this.at + 1)}`), h('span.hint', `score ${score(pair.score)}`), decision && h(`span.state.${decision === 'accepted' ? 'good' : 'bad'}`, decision)), h('div.twin', half(pair.first), half(pair.second))]
      : empty('All seen', 'No pair is left above this score.'));
    this.count.textContent = `${plural(kept, 'pair')} of ${number(this.pairs.length)} at ${score(this.threshold)} or above · ${number(tally('accepted'))} accepted, ${number(tally('rejected'))} rejected`;
    const from = Math.max(0, Math.min(this.at - 2, kept - 8));
    fill(this.queue, this.pairs.slice(from, Math.min(from + 8, kept)).map((one, step) => {
      const state = this.decided.get(from + step);
      return h('li', { 'aria-current': from + step === this.at ? 'true' : null }, h('span.num', score(one.score)), h('p', { dir: 'auto', lang: one.first.language ?? 'und' }, short(one.first.text, 120)), h('p', { dir: 'auto', lang: one.second.language ?? 'und' }, short(one.second.text, 120)), h('span', state && h(`span.state.${state === 'accepted' ? 'good' : 'bad'}`, state)));
    }));
  }

  save() {
    const plain = (text) => String(text ?? '').replace(/[\t\r\n\v\f\u0085\u2028\u2029]/g, ' ');
    const rows = this.pairs.slice(0, this.kept()).filter((_, at) => this.decided.get(at) === 'accepted')
      .map(({ score: value, first, second }) => [value, first.id, second.id, first.text, second.text].map(plain).join('\t'));
    save(new Blob([`score\tfirst_id\tsecond_id\tfirst_text\tsecond_text\n${rows.join('\n')}\n`], { type: 'text/tab-separated-values' }), 'pairs.tsv');
  }
}
