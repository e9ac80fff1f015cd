// Jobs: progress, counts, errors and what can be done about them; also the card of one job that other pages show.

import { ended, follow, get, lines, path, pause, post } from './api.js';
import { button, busy, dialog, empty, fill, h, head, may, select, table, tell, hint } from './dom.js';
import { ago, bytes, duration, link, number, short, when } from './text.js';

const TONES = { succeeded: 'good', failed: 'bad', canceled: 'warn', running: 'busy', queued: 'queued' };
const NAMES = { import: 'Import', snapshot: 'Snapshot', restore: 'Restore', train: 'Training', classify: 'Labeling', evaluate: 'Evaluation', mine: 'Mining', project: 'Map', duplicates: 'Duplicates', reembed: 'Re-embedding' };
const FAILED_SHOWN = 200;

export async function show({ main, query, signal }) {
  const list = h('ul.jobs');
  const more = h('div.foot');
  const chosen = { status: query.get('status') ?? '', type: query.get('type') ?? '' };
  let cursor = null;
  const cards = new Map();
  const read = async (next) => {
    const answer = await get('/v1/jobs', { ...chosen, limit: 50, cursor: next }, signal);
    if (!next) {
      const ids = new Set(answer.jobs.map((job) => job.id));
      for (const [id, one] of cards) if (!ids.has(id) && !one.older) cards.delete(id);
    }
    for (const job of answer.jobs) {
      const known = cards.get(job.id);
      if (known) known.update(job);
      else cards.set(job.id, card(job));
      cards.get(job.id).older = Boolean(next);
    }
    if (next || cursor === null) cursor = answer.next_cursor ?? '';
    const order = [...cards.values()].sort((a, b) => (a.job.id < b.job.id ? 1 : -1)).map((one) => one.element);
    if (order.length !== list.childElementCount || order.some((one, at) => list.children[at] !== one)) list.replaceChildren(...order);
    fill(more, cursor && button('Older jobs', () => read(cursor)));
    if (order.length === 0) fill(more, empty('No jobs', 'Imports, snapshots, training and mining run as jobs. A finished one is forgotten after a week.'));
    return answer.jobs.some((job) => !ended(job));
  };
  const choose = (name) => async (value) => {
    chosen[name] = value;
    cards.clear();
    cursor = null;
    await read();
  };
  fill(main, head('Jobs', 'Work that takes longer than a request. It goes on after a restart.'),
    h('div.toolbar',
      select([['', 'Any status'], ...Object.keys(TONES).map((name) => [name, name])], chosen.status, choose('status'), { 'aria-label': 'Status' }),
      select([['', 'Any kind'], ...Object.entries(NAMES)], chosen.type, choose('type'), { 'aria-label': 'Kind' })), list, more);
  for (;;) {
    const active = await read();
    await pause(active ? 900 : 4000, signal);
  }
}

/** A job as a list item that can be brought up to date. */
export function card(first) {
  const element = h('li', { 'data-job': first.id });
  const one = { element, job: null, update };
  let shown = '';
  function update(job) {
    one.job = job;
    const text = JSON.stringify(job);
    if (text === shown) return;
    shown = text;
    fill(element, content(job, update));
  }
  update(first);
  return one;
}

function content(job, update) {
  const { progress, details } = job;
  const open = !ended(job);
  const amount = (value) => (progress.unit === 'bytes' ? bytes(value) : `${number(value)}`);
  const counts = Object.entries(details ?? {}).filter(([name, value]) => typeof value === 'number' && value !== 0 && !/_(ms|bytes)$/.test(name)).slice(0, 8);
  const actions = h('span.actions',
    ['failed', 'lines_failed', 'documents_failed'].some((name) => details?.[name] > 0) && button('What failed', () => showFailed(job), 'small'),
    job.type === 'mine' && job.status === 'succeeded' && h('a.button.small', { href: `#/mining/${job.id}` }, 'Review'),
    button('Details', () => dialog(`${NAMES[job.type] ?? job.type} ${job.id}`, () => h('div', h('pre', { tabindex: '0' }, JSON.stringify(job, null, 2))), 'wide'), 'small'),
    open && may('write') && button(job.cancel_requested ? 'Stopping…' : 'Cancel', async () => update(await post(path('jobs', job.id, 'cancel'))), 'small', { disabled: job.cancel_requested }));
  const took = job.started_at && duration((new Date(job.finished_at ?? Date.now()) - new Date(job.started_at)) / 1000);
  return [
    h('div.line', h('b', NAMES[job.type] ?? job.type),
      job.collection && h('a', { href: link('collections', job.collection), dir: 'auto' }, job.collection),
      h(`span.state.${TONES[job.status]}`, job.status),
      h('span.hint', { title: when(job.created_at) }, [ago(job.created_at), ended(job) && took && `took ${took}`].filter(Boolean).join(' · ')), actions),
    open && h('progress', { max: Math.max(progress.total, 1), value: progress.done, 'aria-label': 'Progress' }),
    h('p.facts', h('span', `${amount(progress.done)} of ${amount(progress.total)}${progress.unit === 'bytes' ? '' : ` ${progress.unit}`}`),
      open && progress.rate > 0 && h('span', `${amount(Math.round(progress.rate))}${progress.unit === 'bytes' ? '' : ` ${progress.unit}`} a second`),
      open && progress.eta_s !== undefined && h('span', `${duration(progress.eta_s)} left`),
      counts.map(([name, value]) => h('span', `${name.replaceAll('_', ' ')} ${Number.isInteger(value) ? number(value) : value.toFixed(3)}`))),
    job.error && h('p.notice.bad', `${job.error.detail} (${job.error.code})`),
  ];
}

/** The lines of an import that were refused. */
function showFailed(job) {
  return dialog('What failed', () => {
    const place = h('div', { 'aria-busy': 'true' }, hint('Reading…'));
    busy(h('i'), async () => {
      const { lines: found, more } = await lines(path('jobs', job.id, 'results'), { query: { status: 'failed' }, most: FAILED_SHOWN });
      place.removeAttribute('aria-busy');
      fill(place, found.length === 0 && h('p', 'No line failed.'), found.length > 0 && table('Failed lines', ['#Line', 'Document', 'Member', 'Problem'], found.map((one) => [one.line === undefined ? '' : number(one.line), short(one.id ?? ''), one.error?.pointer ?? '', one.error?.detail ?? short(one)])),
      more && hint(`The first ${FAILED_SHOWN}. All of them: GET ${path('jobs', job.id, 'results')}?status=failed`));
    });
    return place;
  }, 'wide');
}

/** Shows a job in `place` until it ends, and gives it; tells when it went wrong. */
export async function showJob(place, job, signal) {
  const one = card(job);
  fill(place, h('ul.jobs', one.element));
  const last = await follow(job.id, (now) => one.update(now), signal);
  if (last.status === 'failed') tell(last.error?.detail ?? 'The job failed.', 'bad');
  return last;
}
