// Keys: listing, creating and revoking them. A secret is shown once.

import {all, call, path, post, session, useKey} from './api.js';
import {ask, button, confirmed, copier, dialog, empty, fill, h, head, select, table, tell} from './dom.js';
import {ago} from './text.js';

const FIRST = 'Once there is a key, every request needs one.';
const SCOPES = {read: 'Read: search, browse, export', write: 'Write: also change documents, train, mine', admin: 'Admin: also manage collections and all else'};

export async function show({main, signal}) {
	const list = h('div.stack');
	const read = async () => {
		const rows = (await all('keys', signal)).map(key => [h('b', key.name), key.scope, key.collections?.join(', ') ?? 'all', ago(key.created_at),
			!key.expires_at ? 'never' : new Date(key.expires_at) < new Date() ? h('span.state.warn', 'expired') : ago(key.expires_at),
			button('Revoke', async () => {
				if (!await confirmed(`Revoke ${key.name}?`, 'Requests with it will be refused at once.', 'Revoke it')) return;
				await call('DELETE', path('keys', key.id));
				tell(`${key.name} is revoked.`);
				await read();
			}, 'small', {label: `Revoke ${key.name}`})]);
		fill(list, rows.length === 0 ? empty('No keys', 'Create an admin key first.') : table('Keys', ['Name', 'Scope', 'Collections', 'Created', 'Expires', 'Action'], rows));
	};
	await read();
	fill(main, head('Keys', FIRST, button('New key', async () => {
		if (await create()) await read();
	}, 'primary', {sign: 'add'})), list);
}

async function create() {
	const made = await ask('New key', {
		notice: !session.guarded && h('p.notice', FIRST, ' The first one must be an admin key for all collections that never expires.'),
		name: ['Name', {required: true, autofocus: true}, 'What it is for'],
		scope: ['Scope', select(Object.entries(SCOPES), session.guarded ? 'read' : 'admin')],
		collections: ['Only these collections', {placeholder: 'all', 'data-list': ''}, 'Names, separated by commas'],
		expires_at: ['Expires', {type: 'date'}],
	}, 'Create', ({collections, expires_at: day, ...values}) => post('v1/keys', {...values, ...(collections.length > 0 && {collections}), ...(day && {expires_at: new Date(`${day}T00:00:00`)})}));
	if (!made) return false;
	const secret = h('code', made.secret);
	await dialog('Copy the key now', close => h('div', h('p', 'The server stores only its hash, so it cannot be shown again.'), h('div.secret', secret, copier(secret)),
		h('footer', button('Done', () => close(true), 'primary'))));
	// From the first key on, the server requires one: this page uses the new key.
	if (!session.guarded) await useKey(made.secret);
	return true;
}
