// Keys: which there are, new ones, and revoking them. A secret is shown once.

import { call, get, path, post, session, useKey } from './api.js';
import { ask, button, confirmed, copier, dialog, empty, field, fill, h, head, listed, select, table, tell } from './dom.js';
import { ago } from './text.js';

const SCOPES = { read: 'Read: search, browse, export', write: 'Write: also change documents, train, mine', admin: 'Admin: also collections, and all else' };

export async function show({ main, signal }) {
  const list = h('div.stack');
  const read = async (cursor) => {
    const answer = await get('/v1/keys', { limit: 200, cursor }, signal);
    const rows = answer.keys.map((key) => [h('b', key.name), key.scope, key.collections?.join(', ') ?? 'all', ago(key.created_at),
      key.expires_at ? (new Date(key.expires_at) < new Date() ? h('span.state.warn', 'expired') : ago(key.expires_at)) : 'never',
      button('Revoke', async () => {
        if (!await confirmed(`Revoke ${key.name}?`, 'Whoever uses it is refused from the next request on.', 'Revoke it')) return;
        await call('DELETE', path('keys', key.id));
        tell(`${key.name} is revoked.`);
        await read();
      }, 'small', { label: `Revoke ${key.name}` })]);
    fill(list, rows.length === 0 ? empty('No keys', 'The first key closes the server: from then on every request needs one.') : table('Keys', ['Name', 'Scope', 'Collections', 'Made', 'Expires', 'Action'], rows),
      answer.next_cursor && button('More keys', () => read(answer.next_cursor)));
  };
  await read();
  fill(main, head('Keys', 'Each request to a server with keys carries one. Keep an admin key before you close the server.', button('New key', async () => {
    if (await create()) await read();
  }, 'primary', { sign: 'add' })), list);
}

async function create() {
  const name = h('input', { required: true, autofocus: true });
  const scope = select(Object.entries(SCOPES), session.guarded ? 'read' : 'admin');
  const collections = h('input', { placeholder: 'all' });
  const expires = h('input', { type: 'date' });
  const made = await ask('New key', [!session.guarded && h('p.notice', 'The first key closes the server: from then on every request needs one. It must be an admin key of all collections that never expires.'),
    field('Name', name, 'What uses it'), field('Scope', scope), field('Only these collections', collections, 'Names, separated by commas'), field('Expires', expires)], 'Make it', () => post('/v1/keys', {
    name: name.value.trim(), scope: scope.value, ...(listed(collections).length > 0 && { collections: listed(collections) }), ...(expires.value && { expires_at: new Date(`${expires.value}T00:00:00`).toISOString() }),
  }));
  if (!made) return false;
  await dialog('Copy the key now', (close) => h('div', h('p', 'The server keeps only its hash: nobody can show it again.'), h('div.secret', h('code', made.secret), copier(() => made.secret)),
    h('footer', button('I have it', () => close(true), 'primary'))));
  // The first key closed the server: this page goes on with it.
  if (!session.guarded) await useKey(made.secret);
  return true;
}
