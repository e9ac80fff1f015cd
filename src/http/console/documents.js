// Documents of a collection: browsing, filtering, writing, deleting.

import {call, get, parse, path, post} from './api.js';
import {ask, button, confirmed, empty, failed, fill, h, may, passage, said, select, tongue} from './dom.js';
import {also, filterEditor, inWords} from './filter.js';
import {chips, noText, openDocument} from './hits.js';
import {ago, counted, plural, short} from './text.js';

const PAGE = 30;

export async function browse({signal}, collection, body, refresh) {
	const {name} = collection;
	let filter;
	let order = 'id';
	let cursor;
	let turn = 0;
	const list = h('ul.documents');
	const foot = h('div.foot');
	const count = h('p.hint', {role: 'status'});
	const filters = h('div');
	const fields = new Set(collection.metadata_indexes);
	const documents = path('collections', name, 'documents');

	const read = async again => {
		const now = again ? turn += 1 : turn;
		if (again) cursor = undefined;
		const answer = await post(`${documents}/scroll`, {limit: PAGE, order: order.replace('-', ''), descending: order.startsWith('-'), filter, cursor}, signal);
		if (now !== turn) return;
		if (again) fill(list);
		cursor = answer.next_cursor;
		for (const one of answer.documents.flatMap(({metadata}) => Object.keys(metadata))) fields.add(one);
		list.append(...answer.documents.map(item));
		fill(foot, cursor && button('More documents', () => read()), list.childElementCount === 0 && empty('No documents', filter ? 'None match the filter.' : 'The collection is empty.'));
		if (!again) return;
		const {documents: total} = filter ? await post(`${documents}/count`, {filter}, signal) : {};
		if (now === turn) count.textContent = filter ? `${plural(total, 'document')}: ${inWords(filter)}` : '';
	};
	const filterBy = next => {
		filter = next;
		read(true).catch(failed);
	};
	const edit = () => fill(filters, filterEditor(filter, filterBy, fields));
	const narrow = next => {
		filterBy(next);
		edit();
	};
	const item = one => {
		const target = path('collections', name, 'documents', one.id);
		const element = h('li', {'data-id': one.id}, h('div', one.title && said('h3', one.language, one.title), one.text ? passage(short(one.text, 400), [], one.language) : noText()),
			h('span.actions', button('Open', () => openDocument(name, one.id), 'small', {label: `Open ${one.id}`}),
				may('write') && [button('Edit', async () => {
					if (!await writeDocument(name, await get(target))) return;
					element.replaceWith(item(await get(target)));
					await refresh();
				}, 'small', {label: `Edit ${one.id}`}), button('Delete', async () => {
					if (!await confirmed('Delete this document?', short(one.title ?? one.text ?? one.id, 200), 'Delete it')) return;
					await call('DELETE', target);
					element.remove();
					await refresh();
				}, 'small', {label: `Delete ${one.id}`})]),
			h('footer', tongue(one.language, {own: false}), h('span.mono.hint', short(one.id, 40)), h('span.hint', ago(one.updated_at)), !one.indexed && h('span.state.busy', 'not embedded yet'), chips(one.metadata, condition => narrow(also(filter, condition)))));
		return element;
	};
	edit();
	fill(body, h('div.toolbar',
		select([['', 'All languages'], ...counted(collection.languages)], '', code => narrow(code ? {field: 'language', eq: code} : undefined), {label: 'Language'}),
		select([['id', 'By id'], ['-updated_at', 'Last changed first'], ['-created_at', 'Newest first']], order, value => {
			order = value;
			filterBy(filter);
		}, {label: 'Order'}),
		may('write') && collection.model && button('Document', async () => {
			if (await writeDocument(name)) await Promise.all([read(true), refresh()]);
		}, '', {sign: 'add', label: 'New document'})),
	h('details', h('summary', 'Filter'), filters), count, h('h2.sr', 'Documents'), list, foot);
	await read(true);
}

// Asks for a document (a new one, or a new version of `known`) and stores it.
export function writeDocument(collection, known) {
	const target = path('collections', collection, 'documents');
	const {metadata: before = {}, language, language_confidence: detected, version, expires_at} = known ?? {};
	const own = detected === undefined && language || '';
	return ask(known ? `Edit ${known.id}` : 'New document', {
		id: !known && ['Id', {}, 'If empty, the server assigns one.'],
		title: ['Title', {value: known?.title ?? ''}],
		text: known?.text !== '' && ['Text', h('textarea', {rows: 8, value: known?.text ?? '', autofocus: true, required: !known})],
		language: ['Language', {value: own, placeholder: 'detected'}],
		metadata: ['Metadata', h('textarea.json', {dir: 'ltr', rows: 4, spellcheck: 'false', value: JSON.stringify(before, null, 2)})],
	}, 'Save', async ({metadata = '{}', text = '', ...given}) => {
		const after = parse(metadata);
		if (!known) {
			const {results: [result]} = await post(target, {documents: [{...given, text, metadata: after}]});
			if (result.status === 'failed') throw new Error(`${result.error.pointer}: ${result.error.detail}`);
			return result;
		}
		const one = `${target}/${encodeURIComponent(known.id)}`;
		if (text !== (known.text ?? '').trim() || own && !given.language) return call('PUT', one, {version, body: {...given, metadata: after, text, expires_at}});
		// A patch works without the collection's model.
		return call('PATCH', one, {version, body: {title: null, ...given, metadata: patch(before, after)}});
	}, 'wide');
}

// The merge patch from one object to another: what differs, with null for removed members.
const patch = (before, after) => Object.fromEntries(Object.keys({...before, ...after}).filter(name => JSON.stringify(before[name]) !== JSON.stringify(after[name])).map(name => {
	const [old, now] = [before[name], after[name]];
	return [name, old?.constructor === Object && now?.constructor === Object ? patch(old, now) : now ?? null];
}));
