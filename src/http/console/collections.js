// Collections: the list, a new one, the page of each: documents, map, imports, languages, settings.

import {call, download, get, path, post} from './api.js';
import {ask, busy, button, card, confirmed, empty, facts, failed, fieldsOf, fill, h, head, hint, icon, languageBar, may, meter, select, stats, table, tell, tongue, written} from './dom.js';
import {browse, writeDocument} from './documents.js';
import {showJob} from './jobs.js';
import {ago, bytes, link, number, plural, spoken} from './text.js';

const PAGE = 60;
const READ_ON = 500;
const TYPES = {ndjson: 'application/x-ndjson', jsonl: 'application/x-ndjson', csv: 'text/csv', tsv: 'text/tab-separated-values'};
const INDEXES = 'Metadata fields to index for filters';
const here = (...parts) => link('collections', ...parts);

export const show = page => (page.args[0] ? showOne(page, ...page.args) : showAll(page));

async function showAll({main, signal}) {
	const known = [];
	let most = PAGE;
	let cursor;
	let reading;
	const grid = h('div.grid');
	const foot = h('div.foot');
	const filter = h('input', {type: 'search', placeholder: 'Name of a collection', label: 'Name of a collection', oninput: () => {
		most = PAGE;
		draw().catch(failed);
	}, onkeydown: ({key}) => {
		if (key === 'Enter' && written(filter)) location.hash = here(written(filter));
	}});
	const read = async limit => {
		const answer = await get('v1/collections', {limit, cursor}, signal);
		known.push(...answer.collections);
		cursor = answer.next_cursor;
	};
	// Shows the first matches, and loads pages until there are enough of them or no more.
	const draw = async () => {
		const part = written(filter).toLowerCase();
		const fitting = known.filter(one => one.name.toLowerCase().includes(part));
		const lacks = cursor && fitting.length < most;
		fill(grid, fitting.slice(0, most).map(tile));
		fill(foot, part && hint(`${number(fitting.length)} of ${number(known.length)}${cursor ? ' read so far' : ''}`), !lacks && (cursor || fitting.length > most) && button('More collections', () => {
			most += PAGE;
			return draw();
		}));
		if (lacks) {
			await (reading ??= read(READ_ON).finally(() => { reading = undefined; }));
			await draw();
		} else if (fitting.length === 0) fill(grid, part ? hint('No name contains this text.') : empty('No collections yet', '', may('admin') && button('Create a collection', create, 'primary')));
	};
	await read(PAGE);
	await draw();
	fill(main, head('Collections', 'Documents under one name, embedded by one model.', may('admin') && button('New collection', create, 'primary', {sign: 'add'})), (known.length > 8 || cursor) && filter, grid, foot);
}

const condition = ({disk_bytes: size, model, passages_pending: pending, index_state: index, damage = []}) => [bytes(size), model ?? h('span.state', 'own vectors'),
	pending > 0 && h('span.state.busy', `${plural(pending, 'passage')} to embed`), index !== 'ready' && h('span.state.warn', `index ${index}`), damage.length > 0 && h('span.state.bad', plural(damage.length, 'damaged place'))];

const tile = one => h('a.card.tile', {href: here(one.name)}, h('h2', one.name), one.description && h('p.hint', one.description), languageBar(one.languages),
	facts(plural(one.documents, 'document'), plural(spoken(one.languages).length, 'language'), ...condition(one)));

async function create() {
	const dimension = h('input', {type: 'number', min: 1, max: 8192, value: 384});
	const made = ask('New collection', {
		name: ['Name', {required: true, autofocus: true}], description: ['Description'],
		kind: ['Contents', select([['model', 'Texts, embedded by the model'], ['vectors', 'My own vectors']], 'model', value => { dimension.parentElement.hidden = value === 'model'; })],
		dimension: ['Values per vector', dimension],
		more: {quantization: ['Quantization of the index', select([['', 'default'], 'f32', 'bf16', 'f16', 'i8', 'b1'])], metadata_indexes: [INDEXES, {placeholder: 'topic, year', 'data-list': ''}]},
	}, 'Create', ({kind, ...values}) => post('v1/collections', values));
	dimension.parentElement.hidden = true;
	const {name} = await made ?? {};
	if (name) location.hash = here(name);
}

async function showOne(page, name, tab = 'documents') {
	const {main, signal} = page;
	let collection;
	const summary = h('div');
	const body = h('div.stack');
	const refresh = async () => {
		collection = await get(path('collections', name), {}, signal);
		fill(summary, facts(plural(collection.documents, 'document'), plural(collection.passages, 'passage'), ...condition(collection)));
	};
	await refresh();
	const tabs = [['documents', 'Documents'], ['map', 'Map'], may('write') && ['import', 'Import'], ['about', 'Languages and settings']].filter(Boolean);
	fill(main, head(name, collection.description, h('a.button.primary', {href: link('search', name)}, icon('search'), 'Search it'),
		button('Export', () => download(path('collections', name, 'export'), `${name}.ndjson`), '', {sign: 'down', title: 'All documents as lines of JSON'})), summary,
	h('nav.tabs', {label: 'Parts of the collection'}, tabs.map(([key, label]) => h('a', {href: here(name, key), 'aria-current': key === tab && 'page'}, label))), body);
	const take = files => {
		if (!document.getElementById('imports')) showImport(collection, body, take);
		return importFiles(name, files, refresh);
	};
	if (may('write')) droppable(main, take);
	if (tab === 'map') await (await import('./map.js')).showMap(page, collection, body);
	else if (tab === 'about') about(collection, body, refresh);
	else if (tab === 'import' || collection.documents === 0 && may('write')) showImport(collection, body, take, tab !== 'import');
	else await browse(page, collection, body, refresh);
}

function droppable(area, take) {
	for (const kind of ['dragover', 'dragleave', 'drop']) {
		area.addEventListener(kind, ({dataTransfer}) => {
			document.querySelector('.drop')?.classList.toggle('over', kind === 'dragover');
			if (kind === 'drop' && dataTransfer?.files.length > 0) take([...dataTransfer.files]);
		});
	}
}

function showImport({name, model}, body, take, first) {
	const picker = h('input.sr', {type: 'file', multiple: true, accept: '.ndjson,.jsonl,.csv,.tsv,.gz,.zst', tabindex: '-1', label: 'Files to import', onchange: () => take([...picker.files])});
	fill(body, h('div.drop', icon('down'), h('h2', first ? 'Drop a file of texts here' : 'Drop files here'),
		hint('NDJSON, CSV or TSV, plain or compressed with gzip or Zstandard. Languages are detected.'), picker, button('Choose files', () => picker.click(), 'primary')),
	h('div.list', {id: 'imports'}),
	h('details', h('summary', 'What a file looks like'), h('pre', {tabindex: '0'}, '{"id": "fr-1", "text": "Le train est en retard.", "metadata": {"topic": "travel"}}\n{"id": "ja-1", "text": "電車が遅れています。", "language": "ja"}'),
		hint('In CSV and TSV the first row names the columns: text, and optionally id, title and language. Others become metadata.')),
	first && model && h('p', button('Or write one document', async () => {
		if (!await writeDocument(name)) return;
		if (location.hash === here(name, 'documents')) dispatchEvent(new Event('hashchange'));
		else location.hash = here(name, 'documents');
	}, '', {sign: 'add'})));
}

// Sends files one by one, and shows each job until its documents can be found.
async function importFiles(name, files, refresh) {
	const list = document.getElementById('imports');
	for (const file of files) {
		const part = h('div.list', h('p.notice.good', `Sending ${file.name}, ${bytes(file.size)}…`));
		list.prepend(part);
		try {
			const {status, details} = await showJob(part, await sendFile(name, file));
			if (status === 'succeeded') part.append(h('p.notice.good', {role: 'status'}, `${file.name} is searchable${details.failed > 0 ? `, except ${plural(details.failed, 'line')} that failed` : ''}. `,
				h('a', {href: link('search', name)}, 'Ask a question'), ', ', h('a', {href: here(name, 'documents')}, 'browse the documents'), ' or ', h('a', {href: here(name, 'map')}, 'see them as a map'), '.'));
		} catch (error) {
			fill(part, h('p.notice.bad', {role: 'alert'}, `${file.name}: ${error.story ?? error.message}`));
		}
		if (list.isConnected) await refresh().catch(failed);
	}
}

async function sendFile(name, file) {
	const [, kind, packed] = file.name.toLowerCase().match(/\.(ndjson|jsonl|csv|tsv)(\.gz|\.zst)?$/) ?? [];
	if (!kind) throw new Error('the name must end in .ndjson, .jsonl, .csv or .tsv, optionally followed by .gz or .zst');
	return call('POST', path('collections', name, 'import'), {body: file, type: TYPES[kind], encoding: {'.gz': 'gzip', '.zst': 'zstd'}[packed]});
}

function about(one, body, refresh) {
	const most = Math.max(...one.languages.map(each => each.documents), 1);
	fill(body, stats('dl.stats.card', [['Model', one.model ?? 'none: own vectors'], ['Values per embedding', number(one.dimension)], ['Metric', one.metric], ['Stored as', one.quantization], ['Index', one.index_state], ['Created', ago(one.created_at)]]),
		card('Documents by language', languageBar(one.languages), table('Documents by language', ['Language', '#Documents', 'Share'], [...spoken(one.languages), ...one.languages.filter(each => !each.language)].map(each => [tongue(each.language), number(each.documents), meter(each.documents / most)]))),
		one.damage?.length > 0 && card('Damage', table('Damage', ['Document', 'Problem'], one.damage.map(each => [each.document ?? '', each.problem]))),
		may('admin') && [change(one, refresh), card('Delete', hint('Deletes the collection and all its documents. Snapshots stay.'), h('div', button('Delete this collection', async () => {
			if (!await confirmed(`Delete ${one.name}?`, `${plural(one.documents, 'document')} will be deleted.`, 'Delete it', one.name)) return;
			await call('DELETE', path('collections', one.name));
			tell(`${one.name} is deleted.`);
			location.hash = '#/collections';
		}, 'danger', {sign: 'bin'})))]);
}

function change(one, refresh) {
	const {elements, values} = fieldsOf({
		description: ['Description', {value: one.description ?? ''}],
		default_languages: ['Languages to search by default', {value: one.default_languages.join(', '), placeholder: 'all', 'data-list': ''}],
		metadata_indexes: [INDEXES, {value: one.metadata_indexes.join(', '), 'data-list': ''}],
	});
	return card('Settings', elements, h('div', button('Save', async () => {
		const {description = '', ...others} = values();
		await call('PATCH', path('collections', one.name), {body: {description, ...others}});
		await refresh();
		tell('Saved.');
	}, 'primary')));
}
