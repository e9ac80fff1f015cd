// Jobs: progress, counts, errors and actions; the card of a job, also for other pages.

import {ended, follow, get, lines, path, pause, post} from './api.js';
import {button, dialog, empty, facts, failed, fill, h, head, hint, may, select, table, tell} from './dom.js';
import {reading} from './hits.js';
import {ago, bytes, duration, link, number, short, when} from './text.js';

const TONES = {succeeded: 'good', failed: 'bad', canceled: 'warn', running: 'busy', queued: 'queued'};
const NAMES = {import: 'Import', snapshot: 'Snapshot', restore: 'Restore', train: 'Training', classify: 'Labeling', evaluate: 'Evaluation', mine: 'Mining', project: 'Map', duplicates: 'Duplicates', reembed: 'Re-embedding'};
const FAILED_SHOWN = 200;
const PAGE = 50;

export async function show({main, query, signal}) {
	const list = h('ul.jobs');
	const more = h('div.foot');
	const chosen = {status: query.get('status'), type: query.get('type')};
	let limit = PAGE;
	let cards = new Map();
	const read = async () => {
		const {jobs, next_cursor: older} = await get('v1/jobs', {...chosen, limit}, signal);
		cards = new Map(jobs.map(job => [job.id, cards.get(job.id) ?? card(job)]));
		for (const job of jobs) cards.get(job.id).update(job);
		const order = [...cards.values()].map(one => one.element);
		// Elements that stay in place keep the focus.
		if (order.length !== list.childElementCount || order.some((one, at) => list.children[at] !== one)) fill(list, order);
		fill(more, older && button('Older jobs', () => {
			limit += PAGE;
			return read();
		}), order.length === 0 && empty('No jobs', 'Imports, snapshots, training and mining run as jobs. Finished jobs are kept for a week.'));
		return jobs.some(job => !ended(job));
	};
	const choose = name => value => {
		chosen[name] = value;
		read().catch(failed);
	};
	fill(main, head('Jobs', 'Work that takes longer than a request. It continues after a restart.'),
		h('div.toolbar',
			select([['', 'Any status'], ...Object.keys(TONES)], chosen.status, choose('status'), {label: 'Status'}),
			select([['', 'Any kind'], ...Object.entries(NAMES)], chosen.type, choose('type'), {label: 'Kind'})), list, more);
	for (;;) await pause(await read() ? 900 : 4000, signal);
}

// A job as a list item that can be updated.
export function card(first) {
	const element = h('li', {'data-job': first.id});
	const one = {element, update: job => {
		if (JSON.stringify(job) === JSON.stringify(one.job)) return;
		one.job = job;
		fill(element, content(job, one.update));
	}};
	one.update(first);
	return one;
}

function content(job, update) {
	const {progress, details = {}} = job;
	const open = !ended(job);
	const kind = NAMES[job.type] ?? job.type;
	const [plain, amount] = progress.unit === 'bytes' ? [bytes, bytes] : [number, value => `${number(value)} ${progress.unit}`];
	const counts = Object.entries(details).filter(([name, value]) => typeof value === 'number' && value !== 0 && !/_(ms|bytes)$/.test(name)).slice(0, 12);
	const took = job.started_at && !open && `took ${duration((new Date(job.finished_at) - new Date(job.started_at)) / 1000)}`;
	return [
		h('div.line', h('b', kind),
			[['collections', job.collection], ['classifiers', details.classifier]].map(([of, name]) => name && h('a', {href: link(of, name)}, name)),
			h(`span.state.${TONES[job.status]}`, job.status),
			h('span.hint', {title: when(job.created_at)}, [ago(job.created_at), took].filter(Boolean).join(' · ')),
			h('span.actions',
				job.type === 'import' && details.failed > 0 && button('What failed', () => showFailed(job), 'small'),
				job.type === 'mine' && job.status === 'succeeded' && h('a.button.small', {href: `#/mining/${job.id}`}, 'Review'),
				button('Details', () => dialog(`${kind} ${job.id}`, () => h('div', h('pre', {tabindex: '0'}, JSON.stringify(job, null, 2))), 'wide'), 'small'),
				open && may('write') && button(job.cancel_requested ? 'Stopping…' : 'Cancel', async () => update(await post(path('jobs', job.id, 'cancel'))), 'small', {disabled: job.cancel_requested}))),
		open && h('progress', {max: Math.max(progress.total, 1), value: progress.done, label: 'Progress'}),
		facts(`${plain(progress.done)} of ${amount(progress.total)}`, open && progress.rate > 0 && `${amount(Math.round(progress.rate))} a second`, open && progress.eta_s !== undefined && `${duration(progress.eta_s)} left`,
			counts.map(([name, value]) => `${name.replaceAll('_', ' ')} ${Number.isInteger(value) ? number(value) : value.toFixed(3)}`)),
		job.error && h('p.notice.bad', `${job.error.detail} (${job.error.code})`),
	];
}

const showFailed = job => reading('What failed', async () => {
	const target = path('jobs', job.id, 'results');
	const {lines: found, more} = await lines(target, {query: {status: 'failed'}, most: FAILED_SHOWN});
	if (found.length === 0) return h('p', 'No line failed.');
	return [table('Failed lines', ['#Line', 'Document', 'Member', 'Problem'], found.map(({line, id, error, ...rest}) => [line === undefined ? '' : number(line), short(id ?? ''), error?.pointer, error?.detail ?? short(rest)])),
		more && hint(`The first ${FAILED_SHOWN}. All of them: GET /${target}?status=failed`)];
});

// Shows a job in `place` until it ends, reports a failure, and returns it.
export async function showJob(place, job, signal) {
	const one = card(job);
	fill(place, h('ul.jobs', one.element));
	const last = await follow(job.id, one.update, signal);
	if (last.status === 'failed') tell(last.error?.detail ?? 'The job failed.', 'bad');
	return last;
}
