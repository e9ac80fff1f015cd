// The map of a collection: each document a point, near to what means the same. Colors, a lasso, a question dropped on it, and all of
// that as a list too.

import { ended, fieldsOf, get, path, post } from './api.js';
import { button, busy, check, empty, failed, fill, h, hint, icon, may, passage, select, tongue, vector } from './dom.js';
import { openDocument } from './hits.js';
import { showJob } from './jobs.js';
import { Scatter } from './scatter.js';
import { ago, hue, languageName, link, number, plural, short } from './text.js';

const LISTED = 20;
const GROUPS_MOST = 40;
const FOUND_MOST = 10;
const SELECTED_MOST = 2000;
const [HIDDEN, FAINT, PLAIN, STRONG] = [0, 30, 205, 255];
const pen = h('canvas').getContext('2d', { willReadFrequently: true });

/** A color of the style sheet as bytes. */
function bytesOf(color) {
  pen.fillStyle = color;
  pen.fillRect(0, 0, 1, 1);
  return pen.getImageData(0, 0, 1, 1).data;
}

export const showMap = async (page, collection, body) => new Chart(page, collection, body, await fieldsOf(collection.name)).open();

class Chart {
  constructor({ query, signal }, collection, body, fields) {
    Object.assign(this, { signal, name: collection.name, texts: new Map(), marked: -1, focus: null, groups: [], listed: LISTED });
    this.center = query.get('center') === 'language' ? 'language' : 'none';
    this.field = query.get('field') ?? '';
    this.target = path('collections', this.name, 'projections');
    this.box = h('input', { type: 'search', value: query.get('q') ?? '', placeholder: 'Ask, and see where the answers lie', 'aria-label': 'Question', oninput: () => this.soon('asking', 300, () => this.ask()) });
    const canvas = h('canvas', { tabindex: 0, role: 'application', 'aria-label': 'Map of the documents: arrow keys move it, plus and minus zoom, 0 shows all. The list has the same documents.' });
    this.loop = vector('path', {});
    [this.work, this.note, this.stage, this.names] = Array.from({ length: 4 }, () => h('div'));
    this.ring = h('i.at.ring', { hidden: true });
    this.flag = h('span.at.flag', { hidden: true }, icon('search'));
    this.tip = h('div.at.tip', { hidden: true });
    this.legend = h('ul.legend');
    this.title = h('h2', { role: 'status' });
    this.tools = h('div.line');
    this.list = h('ul.points');
    const scatter = new Scatter(canvas, {
      hover: (at) => this.hover(at), open: (at) => at >= 0 && this.read(at), drawn: () => this.drawn(),
      loop: (spots) => this.loop.setAttribute('d', spots.length > 1 ? `M${spots.join('L')}Z` : ''),
      chosen: (members) => this.look(members.length > 0 ? { title: 'Selected', members } : null),
    });
    this.scatter = scatter;
    const lasso = button('Lasso', () => {
      scatter.lasso = !scatter.lasso;
      lasso.setAttribute('aria-pressed', String(scatter.lasso));
    }, 'small', { 'aria-pressed': 'false', title: 'Draw a loop around documents; or hold Shift' });
    const zooms = [['+', 'Nearer', () => scatter.zoom(1.6)], ['−', 'Farther', () => scatter.zoom(1 / 1.6)], ['Fit', 'Fit all', () => scatter.fit()]];
    this.chart = h('div.map',
      h('div.plot.card', scatter.gl ? canvas : h('p.notice.bad', { role: 'alert' }, 'This browser has no WebGL2, or it is switched off: it cannot draw the map. The list has its documents.'),
        vector('svg', { 'aria-hidden': 'true' }, this.loop), this.names, this.ring, this.flag, this.tip, h('div.tools', lasso, zooms.map(([sign, label, does]) => button(sign, does, 'small', { label })))),
      h('aside.rail', { 'aria-label': 'Colors and documents' }, this.note, this.legend, this.title, this.tools, this.list));
    fill(body, h('div.toolbar', collection.model && h('div.field', this.box), select([['', 'Color by language'], ...fields.map((one) => [one, `Color by ${one}`])], this.field, (value) => this.open({ field: value }), { 'aria-label': 'Color' }),
      check('Subtract each language’s mean', this.center === 'language', (on) => this.open({ center: on ? 'language' : 'none' }), 'Topics in place of islands of languages')), this.work, this.stage);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.color(), { signal });
    addEventListener('keydown', (event) => event.key === 'Escape' && !document.querySelector('dialog') && this.look(null), { signal });
  }

  /** Does `work` after a while without another call for the same. */
  soon(what, milliseconds, work) {
    clearTimeout(this[what]);
    this[what] = setTimeout(() => !this.signal.aborted && work().catch(failed), milliseconds);
  }

  /** Shows the map that is chosen, or how to get it. */
  open(chosen) {
    Object.assign(this, chosen);
    const settings = { center: this.center === 'none' ? '' : this.center, field: this.field, q: this.box.value.trim() };
    const query = new URLSearchParams(Object.entries(settings).filter(([, value]) => value)).toString();
    history.replaceState(null, '', `${link('collections', this.name, 'map')}${query && `?${query}`}`);
    return busy(this.stage, async () => {
      const [{ projections }, { jobs }] = await Promise.all([get(this.target, {}, this.signal), get('/v1/jobs', { type: 'project', collection: this.name, limit: 10 }, this.signal)]);
      const running = jobs.find((job) => !ended(job));
      if (running && !this.following) this.follow(running).catch(failed);
      const kept = projections.find((one) => one.center === this.center);
      const again = may('write') && !running && button(kept ? 'Bring up to date' : 'Draw the map', () => this.project(), 'primary');
      fill(this.note, kept && h('p.line.hint', `${plural(kept.documents, 'document')}${kept.sampled ? ` of ${number(kept.collection_documents)}` : ''}, drawn ${ago(kept.created_at)}.`, kept.stale && [h('span.state.warn', 'The collection has changed since'), again]));
      if (kept) await this.load();
      else fill(this.stage, running ? [] : empty('No map yet', 'Each document becomes a point, near to those that mean the same, in whatever language they are.', again));
    });
  }

  async project() {
    await this.follow(await post(this.target, { center: this.center })).catch((error) => {
      if (error.status !== 409) throw error;
      fill(this.stage, empty('No map yet', error.story));
    });
  }

  async follow(job) {
    this.following = true;
    const { status } = await showJob(this.work, job, this.signal).finally(() => { this.following = false; });
    if (status === 'succeeded') fill(this.work);
    await this.open();
  }

  async load() {
    const map = await get(`${this.target}/${this.center}`, { field: this.field }, this.signal);
    const drawn = map.center + map.created_at;
    const before = this.places;
    fill(this.stage, this.chart);
    this.ids = map.ids;
    this.places = new Map(map.ids.map((id, at) => [id, at]));
    const [names, of] = this.field ? [map.values, map.value] : [map.languages, map.language];
    const counts = new Map();
    for (const key of of) counts.set(key, (counts.get(key) ?? 0) + 1);
    const order = [...counts.keys()].sort((a, b) => (a < 0) - (b < 0) || counts.get(b) - counts.get(a));
    const group = (key, rank) => (this.field ? { name: key < 0 ? 'none' : short(names[key], 40), hue: key < 0 ? null : rank * 137.5 % 360 } : { name: languageName(names[key]), hue: names[key] ? hue(names[key]) : null });
    this.groups = order.slice(0, GROUPS_MOST).map(group);
    if (order.length > GROUPS_MOST) this.groups.push({ name: `${number(order.length - GROUPS_MOST)} others`, hue: null });
    const ranks = new Map(order.map((key, rank) => [key, Math.min(rank, GROUPS_MOST)]));
    this.group = Uint8Array.from(of, (key) => ranks.get(key));
    if (drawn !== this.drawn_) {
      const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
      this.scatter.load(map.x, map.y, !still && before && map.ids.map((id) => before.get(id) ?? -1));
      this.drawn_ = drawn;
    }
    this.label();
    if (this.box.value.trim()) await this.ask();
    else this.look(null);
  }

  /** Writes the names of those groups on the map that lie together. */
  label() {
    const { places } = this.scatter;
    const sums = [...this.groups, {}].map(() => ({ count: 0, x: 0, y: 0, squares: 0 }));
    const all = sums.at(-1);
    this.group.forEach((rank, at) => {
      const [x, y] = [places[at * 2], places[at * 2 + 1]];
      for (const one of [sums[rank], all]) {
        one.count += 1;
        one.x += x;
        one.y += y;
        one.squares += x * x + y * y;
      }
    });
    const spread = ({ count, x, y, squares }) => (squares - (x * x + y * y) / count) / count;
    this.labels = this.groups.map((group, rank) => ({ group, sum: sums[rank] })).filter(({ group, sum }) => group.hue !== null && sum.count > all.count / 60 && spread(sum) < spread(all) / 3)
      .map(({ group, sum: { count, x, y } }) => ({ group, place: [x / count, y / count], element: h('span.at', { dir: 'auto' }, group.name) }));
    fill(this.names, this.labels.map((one) => one.element));
  }

  /** Colors the points: the groups that are shown, and what is in focus before all else. */
  color() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(name);
    const shades = this.groups.map((one) => bytesOf(one.hue === null ? value('--muted') : `oklch(${value('--tongue-l')} ${value('--tongue-c')} ${one.hue})`));
    const focus = this.focus && new Set(this.focus.members);
    const colors = new Uint8Array(this.group.length * 4);
    this.group.forEach((rank, at) => {
      const strength = !focus || focus.has(at) && !this.focus.place ? PLAIN : focus.has(at) ? STRONG : FAINT;
      [colors[at * 4], colors[at * 4 + 1], colors[at * 4 + 2]] = shades[rank];
      colors[at * 4 + 3] = this.groups[rank].hidden ? HIDDEN : strength;
    });
    this.scatter.paint(colors);
  }

  /** Looks at some documents, or at all again. */
  look(focus) {
    if (!this.group) return;
    Object.assign(this, { focus, listed: LISTED });
    this.color();
    this.count();
    this.show().catch(failed);
  }

  /** The legend: how many of each group are in focus; a click hides a group or shows it again, one with Shift shows it alone. */
  count() {
    const counts = new Uint32Array(this.groups.length);
    if (this.focus) for (const at of this.focus.members) counts[this.group[at]] += 1;
    else for (const rank of this.group) counts[rank] += 1;
    const change = (hide) => {
      for (const one of this.groups) one.hidden = hide(one);
      this.look(this.focus);
    };
    fill(this.legend, this.groups.map((one, rank) => {
      const toggle = h('button.bar', { 'aria-pressed': String(!one.hidden), title: 'Hide or show; with Shift, only this', vars: one.hue !== null && { hue: one.hue },
        onclick: ({ shiftKey }) => {
          change((each) => (shiftKey ? each !== one : each === one ? !one.hidden : each.hidden));
          this.legend.children[rank].firstChild.focus();
        } }, h('i'), h('span', { dir: 'auto' }, one.name), h('b', number(counts[rank])));
      return h('li', toggle);
    }), this.groups.some((one) => one.hidden) && h('li', button('Show all', () => change(() => false), 'small')));
  }

  /** Fetches texts that are not known yet, all in one request. */
  async fetch(members) {
    const missing = members.map((at) => this.ids[at]).filter((id) => !this.texts.has(id));
    if (missing.length === 0) return;
    const { documents } = await post(`${path('collections', this.name, 'documents')}/scroll`, { limit: missing.length, filter: { field: 'id', in: missing } }, this.signal);
    for (const one of documents) this.texts.set(one.id, one);
  }

  /** Lists what is in focus, or else in view. */
  async show() {
    const { title, members, off } = this.focus ?? { title: 'In view', members: this.scatter.inView() };
    const part = members.slice(0, this.listed);
    this.showing = part;
    fill(this.title, `${title}: ${plural(members.length, 'document')}`);
    fill(this.tools, off > 0 && hint(`${number(off)} more are not on the map.`), this.focus && [title === 'Selected' && members.length <= SELECTED_MOST
      && h('a.button.small', { href: `${link('search', this.name)}?a=${encodeURIComponent(JSON.stringify({ filter: { field: 'id', in: members.map((at) => this.ids[at]) } }))}` }, 'Search among these'), button('Clear', () => {
      this.box.value = '';
      this.look(null);
    }, 'small')]);
    await this.fetch(part);
    if (this.showing !== part) return;
    fill(this.list, part.map((at) => {
      const one = this.texts.get(this.ids[at]);
      const mark = () => this.mark(at);
      return h('li', h('button', { onclick: () => this.read(at), onpointerenter: mark, onfocus: mark }, tongue(one?.language, { own: false }), passage(short(one?.text || this.ids[at], 140), [], one?.language)));
    }), members.length > part.length && h('li', button('More', () => {
      this.listed += LISTED;
      return this.show();
    }, 'small')));
  }

  read(at) {
    return openDocument(this.name, this.ids[at]);
  }

  /** Puts the ring on a point. */
  mark(at) {
    this.marked = at;
    this.tip.hidden = true;
    this.scatter.redraw();
  }

  /** Shows what the document under the pointer says, once the pointer rests. */
  hover(at) {
    if (at === this.marked) return;
    this.mark(at);
    if (at >= 0) this.soon('resting', 90, async () => {
      await this.fetch([at]);
      const one = this.texts.get(this.ids[at]);
      if (this.marked !== at || !one) return;
      const value = this.field && one.metadata[this.field];
      fill(this.tip, h('p.facts', tongue(one.language), value && h('span', { dir: 'auto' }, short(value, 40))), one.title && h('b', { dir: 'auto' }, one.title), passage(short(one.text, 260), [], one.language));
      const [x, y] = this.scatter.spotOf(at);
      this.tip.classList.toggle('left', x > this.scatter.width / 2);
      this.tip.classList.toggle('over', y > this.scatter.height / 2);
      this.tip.hidden = false;
    });
  }

  /** After each frame: what lies on the points moves with them, and the list follows when the map rests. */
  drawn() {
    const { scatter, focus, marked } = this;
    const put = (element, spot) => {
      element.hidden = !spot;
      for (const [name, value] of [['--x', spot?.[0]], ['--y', spot?.[1]]]) if (spot) element.style.setProperty(name, `${value.toFixed(1)}px`);
    };
    const spot = marked >= 0 && scatter.spotOf(marked);
    put(this.ring, spot);
    if (!this.tip.hidden) put(this.tip, spot);
    else if (spot) for (const name of ['--x', '--y']) this.tip.style.setProperty(name, this.ring.style.getPropertyValue(name));
    put(this.flag, focus?.place && scatter.spot(...focus.place));
    for (const { group, place, element } of this.labels ?? []) put(element, !group.hidden && !focus && scatter.spot(...place));
    if (!focus) this.soon('resting_', 250, () => this.show());
  }

  /** Drops the question onto the map: its answers stand out, and the flag lies at their mean, by score. */
  async ask() {
    const query = this.box.value.trim();
    if (!query || !this.places) return this.look(null);
    const { hits } = await post(path('collections', this.name, 'search'), { query, limit: FOUND_MOST }, this.signal);
    if (query !== this.box.value.trim()) return undefined;
    const found = hits.filter((hit) => this.places.has(hit.id)).map((hit) => ({ at: this.places.get(hit.id), weight: Math.max(hit.score, 0) + 1e-9 }));
    const total = found.reduce((sum, { weight }) => sum + weight, 0);
    const mean = (part) => found.reduce((sum, { at, weight }) => sum + this.scatter.places[at * 2 + part] * weight, 0) / total;
    return this.look({ title: 'Found', members: found.map((one) => one.at), off: hits.length - found.length, place: found.length > 0 && [mean(0), mean(1)] });
  }
}
