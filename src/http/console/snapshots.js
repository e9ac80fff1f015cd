// Snapshots: creating, moving, restoring and deleting them.

import {all, call, download, path, post, send} from './api.js';
import {ask, busy, button, check, confirmed, empty, fill, h, head, hint, select, tell} from './dom.js';
import {showJob} from './jobs.js';
import {ago, bytes, number, plural, short, when} from './text.js';

export async function show({main, signal}) {
	const list = h('ul.list');
	const work = h('div.stack');
	const read = async () => {
		const snapshots = await all('snapshots', signal);
		fill(list, snapshots.length === 0 ? h('li', empty('No snapshots', 'A snapshot is one file with copies of collections.')) : snapshots.map(item));
	};
	const run = async job => {
		const done = await showJob(work, job, signal);
		await read();
		return done.status === 'succeeded';
	};
	const item = ({id, created_at: made, archive_bytes: size, collections}) => {
		const total = collections.reduce((sum, each) => sum + each.documents, 0);
		const target = path('snapshots', id);
		return h('li', h('div.line', h('b', when(made)), h('span.hint', `${ago(made)} · ${bytes(size)} · ${plural(total, 'document')}`), h('span.actions',
			button('Download', () => download(`${target}/archive`, `${id}.tar.zst`), 'small', {sign: 'down'}),
			button('Restore', async () => {
				const body = await askRestore(collections);
				if (body && await run(await post(`${target}/restore`, body))) tell('Restored.');
			}, 'small'),
			button('Delete', async () => {
				if (!await confirmed('Delete this snapshot?', `From ${when(made)}, with ${plural(collections.length, 'collection')}.`, 'Delete it')) return;
				await call('DELETE', target);
				await read();
			}, 'small'))),
		hint(short(collections.map(each => `${each.name} (${number(each.documents)})`).join(', '), 600)));
	};
	const file = h('input.sr', {type: 'file', accept: '.zst', tabindex: '-1', label: 'Archive of a snapshot', onchange: () => busy(file, async () => {
		const [body] = file.files;
		// Without TLS, there is no randomUUID; a blob's address ends with one.
		const id = body.name.match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0] ?? URL.createObjectURL(body).slice(-36);
		await send('PUT', path('snapshots', id, 'archive'), {body, type: 'application/zstd'});
		tell('The archive is complete and stored.');
		await read();
	})});
	await read();
	fill(main, head('Snapshots', 'Consistent copies, made while the server runs. They contain no keys.', file, button('Upload', () => file.click(), '', {sign: 'up'}),
		button('Snapshot of everything', async () => run(await post('v1/snapshots', {})), 'primary')), work, list);
}

function askRestore(collections) {
	const name = h('input', {placeholder: 'the same name'});
	const what = select([['', 'Everything'], ...collections.map(each => each.name)], '', value => { name.parentElement.hidden = value === ''; });
	let replace;
	const asked = ask('Restore', {collection: ['What', what], rename_to: ['Under another name', name], replace: check('Replace what has these names', false, on => { replace = on || undefined; }, 'The existing data will be deleted')}, 'Restore',
		values => ({...values, replace}));
	name.parentElement.hidden = true;
	return asked;
}
