// Snapshots: making, keeping, restoring and deleting them.

import { call, download, get, path, post, send } from './api.js';
import { ask, button, busy, check, confirmed, empty, field, fill, h, head, select, tell } from './dom.js';
import { showJob } from './jobs.js';
import { ago, bytes, number, plural, when } from './text.js';

export async function show({ main, signal }) {
  const list = h('ul.list');
  const work = h('div.stack');
  const read = async () => {
    const { snapshots } = await get('/v1/snapshots', { limit: 200 }, signal);
    fill(list, snapshots.length === 0 ? h('li', empty('No snapshots', 'A snapshot is one file with all collections, or some, as they are at one moment. Searches and writes go on meanwhile.')) : snapshots.map(item));
  };
  const run = async (job) => {
    const done = await showJob(work, job, signal);
    await read();
    return done;
  };
  const item = (one) => {
    const total = one.collections.reduce((sum, each) => sum + each.documents, 0);
    const target = path('snapshots', one.id);
    return h('li', h('div.line', h('b', when(one.created_at)), h('span.hint', `${ago(one.created_at)} · ${bytes(one.archive_bytes)} · ${plural(total, 'document')}`), h('span.actions',
      button('Download', () => download(`${target}/archive`, `${one.id}.tar.zst`), 'small', { sign: 'down' }),
      button('Restore', async () => {
        const body = await askRestore(one);
        if (body && (await run(await post(`${target}/restore`, body))).status === 'succeeded') tell('Restored.');
      }, 'small'),
      button('Delete', async () => {
        if (!await confirmed('Delete this snapshot?', `Of ${when(one.created_at)}, with ${plural(one.collections.length, 'collection')}.`, 'Delete it')) return;
        await call('DELETE', target);
        await read();
      }, 'small'))),
    h('p.chips', one.collections.slice(0, 24).map((each) => h('span.chip', { dir: 'auto' }, each.name, h('span', ` ${number(each.documents)}`))), one.collections.length > 24 && h('span.chip', `+${one.collections.length - 24}`)));
  };
  const file = h('input.sr', { type: 'file', accept: '.zst', tabindex: '-1', 'aria-label': 'Archive of a snapshot', onchange: () => busy(file, async () => {
    const id = file.files[0].name.match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0] ?? crypto.randomUUID();
    await send('PUT', path('snapshots', id, 'archive'), { body: file.files[0], type: 'application/zstd' });
    tell('The archive is whole, and kept.');
    await read();
  }) });
  await read();
  fill(main, head('Snapshots', 'Consistent copies, made while the server works. Keys are in none of them.', file, button('Upload', () => file.click(), '', { sign: 'up' }),
    button('Snapshot of everything', async () => run(await post('/v1/snapshots', {})), 'primary')), work, list);
}

function askRestore(one) {
  const name = h('input', { placeholder: 'the same name' });
  const rename = field('Under another name', name);
  rename.hidden = true;
  const what = select([['', 'All that it holds'], ...one.collections.map((each) => [each.name, each.name])], '', (value) => { rename.hidden = value === ''; });
  let replace = false;
  return ask('Restore', [field('What', what), rename, check('Replace what has the name', false, (on) => { replace = on; }, 'What is there under these names now goes')], 'Restore',
    () => ({ ...(what.value && { collection: what.value, ...(name.value.trim() && { rename_to: name.value.trim() }) }), ...(replace && { replace }) }));
}
