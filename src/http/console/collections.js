// Collections: all of them, a new one, and one alone with its documents, imports, languages and settings.

import { call, download, get, path, pause, post, send } from './api.js';
import { ask, button, busy, confirmed, empty, failed, field, fill, h, head, icon, languageBar, listed, may, meter, select, table, tell, tongue, hint } from './dom.js';
import { browse, writeDocument } from './documents.js';
import { showJob } from './jobs.js';
import { ago, bytes, languageName, link, number, plural, spoken } from './text.js';

const PAGE = 60;
const READ_ON = 500;
const TYPES = { ndjson: 'application/x-ndjson', jsonl: 'application/x-ndjson', csv: 'text/csv', tsv: 'text/tab-separated-values' };
const INDEXES = 'Metadata fields that filters use often';
const here = (...parts) => link('collections', ...parts);

export async function show(page) {
  if (page.args[0]) await showOne(page, page.args[0], page.args[1] ?? 'documents');
  else await showAll(page);
}

async function showAll({ main, signal }) {
  const known = [];
  let [cursor, most, reading] = [null, PAGE, null];
  const grid = h('div.grid');
  const foot = h('div.foot');
  const filter = h('input', { type: 'search', placeholder: 'Name of a collection', 'aria-label': 'Name of a collection', oninput: () => {
    most = PAGE;
    draw().catch(failed);
  }, onkeydown: (event) => {
    if (event.key === 'Enter' && filter.value.trim()) location.hash = here(filter.value.trim());
  } });
  const read = async () => {
    const answer = await get('/v1/collections', { limit: known.length === 0 ? PAGE : READ_ON, cursor }, signal);
    known.push(...answer.collections);
    cursor = answer.next_cursor;
    reading = null;
  };
  /** Shows the first of those that fit, and reads on until enough of them are there; never more than asked for. */
  const draw = async () => {
    for (;;) {
      const part = filter.value.trim().toLowerCase();
      const fitting = known.filter((one) => one.name.toLowerCase().includes(part));
      fill(grid, fitting.slice(0, most).map(tile));
      const reads = fitting.length < most && cursor !== undefined;
      fill(foot, part && hint(`${number(fitting.length)} of ${number(known.length)}${cursor ? ' read so far' : ''}`), (fitting.length > most || cursor) && !reads && button('More collections', () => {
        most += PAGE;
        return draw();
      }));
      if (!reads) {
        if (fitting.length === 0) fill(grid, part ? hint('None has that in its name.') : empty('No collections yet', 'A collection holds documents under one name, embedded by one model.', may('admin') && button('Make a collection', create, 'primary')));
        return;
      }
      await (reading ??= read());
    }
  };
  await draw();
  fill(main, head('Collections', cursor || known.length > 12 ? null : 'Documents under one name, embedded by one model.', may('admin') && button('New collection', create, 'primary', { sign: 'add' })),
    (known.length > 8 || cursor) && filter, grid, foot);
}

function tile(one) {
  const pending = one.passages_pending > 0;
  return h('a.card.tile', { href: here(one.name) }, h('h2', one.name), one.description && h('p.hint', { dir: 'auto' }, one.description),
    languageBar(one.languages), h('p.facts', h('span', plural(one.documents, 'document')), h('span', plural(spoken(one.languages).length, 'language')), h('span', bytes(one.disk_bytes)),
      !one.model && h('span.state', 'own vectors'), pending && h('span.state.busy', `${number(one.passages_pending)} to embed`), one.index_state !== 'ready' && h('span.state.warn', one.index_state)));
}

/** Asks for a new collection, and opens it. */
async function create() {
  const name = h('input', { required: true, autofocus: true });
  const description = h('input');
  const dimension = h('input', { type: 'number', min: 1, max: 8192, value: 384 });
  const own = field('Values per vector', dimension);
  own.hidden = true;
  const kind = select([['model', 'Texts, embedded by the model'], ['vectors', 'Vectors of my own']], 'model', (value) => { own.hidden = value === 'model'; });
  const quantization = select([['', 'as the server sees fit'], ...['f32', 'bf16', 'f16', 'i8', 'b1'].map((one) => [one, one])], '');
  const indexes = h('input', { placeholder: 'topic, year' });
  const made = await ask('New collection', [field('Name', name), field('Description', description), field('What it holds', kind), own,
    h('details', h('summary', 'More'), field('Stored values of the index', quantization), field(INDEXES, indexes))], 'Make it', () => post('/v1/collections', {
    name: name.value.trim(), ...(description.value.trim() && { description: description.value.trim() }), ...(!own.hidden && { dimension: Number(dimension.value) }),
    ...(quantization.value && { quantization: quantization.value }), ...(listed(indexes).length > 0 && { metadata_indexes: listed(indexes) }),
  }));
  if (made) location.hash = here(made.name);
}

async function showOne(page, name, tab) {
  const { main, signal } = page;
  const state = { collection: await get(path('collections', name), {}, signal) };
  const summary = h('div');
  const body = h('div.stack');
  const tabs = [['documents', 'Documents'], ['map', 'Map'], may('write') && ['import', 'Import'], ['about', 'Languages and settings']].filter(Boolean);
  const refresh = async () => {
    state.collection = await get(path('collections', name), {}, signal);
    draw();
  };
  const draw = () => {
    const { collection: one } = state;
    fill(summary, h('p.facts', h('span', plural(one.documents, 'document')), h('span', plural(one.passages, 'passage')), h('span', bytes(one.disk_bytes)), one.model && h('span', one.model),
      one.passages_pending > 0 && h('span.state.busy', `${number(one.passages_pending)} passages wait for their embedding`),
      one.index_state !== 'ready' && h('span.state.warn', `index ${one.index_state}`), one.damage?.length > 0 && h('span.state.bad', plural(one.damage.length, 'damaged place'))));
  };
  draw();
  fill(main, head(name, state.collection.description, h('a.button.primary', { href: link('search', name) }, icon('search'), 'Search it'),
    button('Export', () => download(path('collections', name, 'export'), `${name}.ndjson`), '', { sign: 'down', title: 'All documents as lines of JSON' })), summary,
  h('nav.tabs', { 'aria-label': 'Parts of the collection' }, tabs.map(([key, label]) => h('a', { href: here(name, key), 'aria-current': key === tab ? 'page' : null }, label))), body);
  if (may('write')) droppable(main, (files) => importFiles(page, state, files, refresh));
  if (tab === 'import') showImport(page, state, body, refresh);
  else if (tab === 'map') await (await import('./map.js')).showMap(page, state.collection, body);
  else if (tab === 'about') about(state, body, refresh);
  else if (state.collection.documents === 0 && may('write')) showImport(page, state, body, refresh, true);
  else await browse(page, state.collection, body, refresh);
}

/** Takes files that are dropped anywhere on `area`. */
function droppable(area, take) {
  area.addEventListener('dragover', () => document.querySelector('.drop')?.classList.add('over'));
  area.addEventListener('dragleave', () => document.querySelector('.drop')?.classList.remove('over'));
  area.addEventListener('drop', (event) => {
    document.querySelector('.drop')?.classList.remove('over');
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length > 0) take(files);
  });
}

function showImport(page, state, body, refresh, first) {
  const picker = h('input.sr', { type: 'file', multiple: true, accept: '.ndjson,.jsonl,.csv,.tsv,.gz,.zst', tabindex: '-1', 'aria-label': 'Files to import', onchange: () => importFiles(page, state, [...picker.files], refresh) });
  fill(body, h('div.drop', icon('down'), h('h2', first ? 'Drop a file of texts here' : 'Drop files here'),
    hint('NDJSON, CSV or TSV, plain or packed with gzip or Zstandard. Languages are detected.'), picker, button('Choose files', () => picker.click(), 'primary')),
  h('div.list', { id: 'imports' }),
  h('details', h('summary', 'What a file looks like'), h('pre', { tabindex: '0' }, '{"id": "fr-1", "text": "Le train est en retard.", "metadata": {"topic": "travel"}}\n{"id": "ja-1", "text": "電車が遅れています。", "language": "ja"}'),
    hint('In CSV and TSV the first row names the columns: text, and perhaps id, title and language. All others become metadata.')),
  first && may('write') && h('p', button('Or write one document', async () => { if (await writeDocument(state.collection.name)) reopen(state.collection.name); }, '', { sign: 'add' })));
}

function reopen(name) {
  if (location.hash === here(name, 'documents')) dispatchEvent(new Event('hashchange'));
  else location.hash = here(name, 'documents');
}

/** Sends files one after the other, and shows the job of each until all of its documents can be found. */
async function importFiles(page, state, files, refresh) {
  const name = state.collection.name;
  if (!document.getElementById('imports')) {
    location.hash = here(name, 'import');
    for (let tries = 0; tries < 40 && !document.getElementById('imports'); tries += 1) await pause(50);
  }
  const list = document.getElementById('imports');
  for (const file of files) {
    const place = h('div.list', h('p.notice.good', `Sending ${file.name}, ${bytes(file.size)}…`));
    list.prepend(place);
    await busy(place, async () => {
      try {
        const done = await showJob(place, await sendFile(name, file));
        if (done.status !== 'succeeded') return;
        const failed = done.details.failed ?? 0;
        place.append(h('p.notice.good', { role: 'status' }, `${file.name} is searchable${failed > 0 ? `, except ${plural(failed, 'line')} that failed` : ''}. `,
          h('a', { href: link('search', name) }, 'Ask it something'), ' or ', h('a', { href: here(name, 'documents') }, 'look at the documents'), '.'));
      } catch (error) {
        fill(place, h('p.notice.bad', { role: 'alert' }, `${file.name}: ${error.story ?? error.message}`));
      }
      if (list.isConnected) await refresh();
    });
  }
}

async function sendFile(name, file) {
  const [, kind, packed] = file.name.toLowerCase().match(/\.(ndjson|jsonl|csv|tsv)(\.gz|\.zst)?$/) ?? [];
  const target = path('collections', name, 'import');
  if (kind === undefined) throw new Error('the name must end in .ndjson, .jsonl, .csv or .tsv, perhaps followed by .gz or .zst');
  const answer = await send('POST', target, { body: file, type: TYPES[kind], encoding: packed && { '.gz': 'gzip', '.zst': 'zstd' }[packed] });
  return answer.json();
}

function about(state, body, refresh) {
  const { collection: one } = state;
  const most = Math.max(...one.languages.map((each) => each.documents), 1);
  const facts = [['Model', one.model ?? 'none: own vectors'], ['Values per embedding', number(one.dimension)], ['Metric', one.metric], ['Stored as', one.quantization], ['Index', one.index_state], ['Made', ago(one.created_at)]];
  fill(body, h('dl.stats.card', facts.map(([name, value]) => h('div', h('dt', name), h('dd', value)))),
    h('section.card', h('h2', 'Documents by language'), languageBar(one.languages), table('Documents by language', ['Language', '#Documents', 'Share'], [...spoken(one.languages), ...one.languages.filter((each) => !each.language)].map((each) => [tongue(each.language), number(each.documents), meter(each.documents / most)]))),
    one.damage?.length > 0 && h('section.card', h('h2', 'Damage'), table('Damage', ['Document', 'Problem'], one.damage.map((each) => [each.document ?? '', each.problem]))),
    may('admin') && change(one, refresh),
    may('admin') && h('section.card', h('h2', 'Delete'), hint('Deletes the collection with all of its documents. Snapshots keep theirs.'), h('div', button('Delete this collection', async () => {
      if (!await confirmed(`Delete ${one.name}?`, `${plural(one.documents, 'document')} will be gone.`, 'Delete it', one.name)) return;
      await call('DELETE', path('collections', one.name));
      tell(`${one.name} is deleted.`);
      location.hash = '#/collections';
    }, 'danger', { sign: 'bin' }))));
}

function change(one, refresh) {
  const description = h('input', { value: one.description ?? '' });
  const languages = h('input', { value: one.default_languages.join(', '), placeholder: 'all' });
  const indexes = h('input', { value: one.metadata_indexes.join(', ') });
  return h('section.card', h('h2', 'Settings'), field('Description', description), field('Languages that searches look at when they name none', languages, listed(languages).map(languageName).join(', ')), field(INDEXES, indexes),
    h('div', button('Save', async () => {
      await call('PATCH', path('collections', one.name), { body: { description: description.value.trim(), default_languages: listed(languages), metadata_indexes: listed(indexes) } });
      await refresh();
      tell('Saved.');
    }, 'primary')));
}
