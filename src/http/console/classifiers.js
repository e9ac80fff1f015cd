// Classifiers: training from a metadata field, trying, errors by language.

import {all, call, get, metadataOf, path, post} from './api.js';
import {ask, button, busy, card, confirmed, empty, facts, fill, h, head, hint, may, meter, passage, pickCollection, select, table, tell, tongue} from './dom.js';
import {reading} from './hits.js';
import {showJob} from './jobs.js';
import {ago, languageName, link, number, percent, plural, score} from './text.js';

const KINDS = [['knn', 'knn: the nearest labeled passages vote'], ['mlp', 'mlp: a small neural network, the fastest']];
const TONES = {ready: 'good', training: 'busy', failed: 'bad', outdated: 'warn'};
const ERRORS_LOOKED_AT = 500;

export async function show(page) {
	if (page.args[0]) return showOne(page, page.args[0]);
	const classifiers = await all('classifiers', page.signal);
	return fill(page.main, head('Classifiers', 'They learn labels in one language and predict them in all others.', may('write') && button('New classifier', create, 'primary', {sign: 'add'})),
		classifiers.length === 0 && empty('No classifiers yet', 'Use a collection whose documents have a label in their metadata, such as a topic.'),
		h('div.grid', classifiers.map(({name, state, kind, source}) => h('a.card.tile', {href: link('classifiers', name)}, h('h2', name),
			facts(h(`span.state.${TONES[state]}`, state), kind, source && `${source.field} in ${source.collection}`)))));
}

async function create() {
	const known = await get('v1/collections', {limit: 200});
	const first = (known.collections.find(one => one.documents > 0) ?? (known.next_cursor && known.collections[0]))?.name;
	if (!first) return tell('Create a collection with documents first.', 'note');
	const labels = h('datalist', {id: 'label-fields'});
	const offer = async collection => fill(labels, (await metadataOf(collection)).map(value => h('option', {value})));
	await offer(first);
	const made = await ask('New classifier', {
		name: ['Name', {required: true, autofocus: true}], collection: ['Learns from', pickCollection(known, first, offer)],
		field: ['Field with the label', {required: true, list: labels.id}], labels, kind: ['Kind', select(KINDS)],
	}, 'Train', ({name, kind, ...source}) => post('v1/classifiers', {name, kind, source}));
	if (made) location.hash = link('classifiers', made.name);
	return made;
}

async function showOne({main, signal}, name) {
	const target = path('classifiers', name);
	let one = await get(target, {}, signal);
	const {kind, source, trained_at: trained} = one;
	const work = h('div');
	fill(main, head(name, [kind, source && `learns ${source.field} from ${source.collection}`, trained && `trained ${ago(trained)}`].filter(Boolean).join(' · '), may('write') && [
		button('Train again', async () => {
			await showJob(work, await post(`${target}/train`), signal);
			dispatchEvent(new Event('hashchange'));
		}), button('Delete', async () => {
			if (!await confirmed(`Delete ${name}?`, 'Labels that it wrote stay.', 'Delete it')) return;
			await call('DELETE', target);
			location.hash = '#/classifiers';
		})]), work);
	if (one.state === 'training') {
		await showJob(work, await get(path('jobs', one.job), {}, signal), signal);
		one = await get(target, {}, signal);
	}
	if (one.error) main.append(h('p.notice.bad', one.error.detail));
	if (one.state === 'ready') main.append(learned(one.training), attempt(target), source ? quality(target, source) : '');
}

function learned(training) {
	if (!training) return '';
	const {labels, examples, validation_quality: right, validation_examples: apart} = training;
	const most = Math.max(...labels.map(each => each.examples), 1);
	return card(`Learned from ${plural(examples, 'example')}`, right !== undefined && h('p', `Quality on ${plural(apart, 'validation example')}: ${percent(right)}.`),
		table('Examples by label', ['Label', '#Examples', 'Share'], labels.map(each => [each.label, number(each.examples), meter(each.examples / most)])));
}

function attempt(target) {
	const text = h('textarea', {rows: 2, label: 'A text in any language', placeholder: 'A text in any language'});
	const answer = h('div.stack', {role: 'status'});
	return card('Try it', text, h('div', button('Predict', async () => {
		const {predictions: [{abstained, labels, language, scores, neighbors = []}]} = await post(`${target}/predict`, {texts: [text.value], scores: 5, explain: 3});
		fill(answer, h('p.line', h('b', abstained ? 'It abstains' : labels.join(', ')), language && tongue(language)),
			table('Probabilities', ['Label', '#Probability', 'Share'], scores.map(({label, probability}) => [label, percent(probability), meter(probability)])),
			neighbors.length > 0 && h('h3', 'Nearest examples'), neighbors.map(each => h('div', h('p.line', tongue(each.language), h('b', each.labels.join(', ')), h('span.hint', `cosine ${score(each.score)}`)), passage(each.text, [], each.language))));
	}, 'primary')), answer);
}

// The confusion matrix on the documents that it learned from; a cell opens its documents.
function quality(target, source) {
	const place = h('div.stack');
	const evaluate = async (code, languages) => {
		const filter = code ? {and: [source.filter, {field: 'language', eq: code}].filter(Boolean)} : source.filter;
		const result = await post(`${target}/evaluate`, {documents: {collection: source.collection, field: source.field, filter}});
		const {all, transfer, confusion} = result;
		const known = languages ?? result.languages;
		const choose = select([['', 'All languages'], ...known.filter(one => one.language).map(one => [one.language, `${languageName(one.language)}: ${percent(one.scores.accuracy)}`])], code, value => busy(choose, () => evaluate(value, known)), {label: 'Language'});
		fill(place, choose, h('p', `Accuracy on ${plural(all.examples, 'document')}: ${percent(all.accuracy)}, macro-F1 ${percent(all.macro_f1)}${transfer ? `; the other languages are ${percent(Math.abs(transfer.gap))} ${transfer.gap < 0 ? 'above' : 'below'} ${languageName(transfer.from)}` : ''}.`),
			confusion && matrix(result, (expected, answered) => errors(target, source, filter, expected, answered)));
	};
	const judge = button('Evaluate', () => {
		judge.hidden = true;
		return evaluate('');
	}, 'primary');
	return card('How accurate is it?', hint('Evaluates on its own collection; a knn classifies each document without itself. Click a number to see the documents.'), place, h('div', judge));
}

function matrix({confusion, labels}, open) {
	const names = labels.map(one => one.label);
	const answers = confusion.some(one => one.answered === undefined) ? [...names, undefined] : names;
	const most = Math.max(...confusion.map(one => one.count), 1);
	const cell = (expected, answered) => {
		const {count} = confusion.find(one => one.expected === expected && one.answered === answered) ?? {};
		return count ? h(`button.${expected === answered ? 'right' : 'wrong'}`, {vars: {part: count / most}, label: `${told(expected, answered)}: ${count}`, onclick: () => open(expected, answered)}, number(count)) : h('span.zero', '·');
	};
	const all = table('Confusion matrix: rows are the labels, columns the answers', ['label ↓ predicted →', ...answers.map(one => one ?? 'abstained')],
		names.map(expected => [h('th', {scope: 'row'}, expected), ...answers.map(answered => cell(expected, answered))]));
	all.classList.add('matrix');
	return all;
}

const told = (expected, answered) => `${expected} predicted as ${answered ?? 'nothing'}`;

// The documents of a cell: those with the label, predicted again.
const errors = (target, {collection, field}, filter, expected, answered) => reading(told(expected, answered), async () => {
	// A label is a string; the metadata value that it stands for may be a number or a boolean.
	const values = [{true: true, false: false}[expected] ?? expected, ...(expected.trim() !== '' && Number.isFinite(Number(expected)) ? [Number(expected)] : [])];
	const {documents} = await post(path('collections', collection, 'documents', 'scroll'), {limit: ERRORS_LOOKED_AT, filter: {and: [{field, in: values}, filter].filter(Boolean)}});
	const found = [];
	for (let at = 0; at < documents.length; at += 100) {
		const part = documents.slice(at, at + 100);
		const {predictions} = await post(`${target}/predict`, {documents: {collection, ids: part.map(one => one.id)}});
		found.push(...part.filter((_, place) => (predictions[place].abstained ? undefined : predictions[place].labels[0]) === answered));
	}
	return [hint(plural(found.length, 'document')), found.slice(0, 100).map(one => h('div', tongue(one.language), passage(one.text, [], one.language), h('span.mono.hint', one.id)))];
});
