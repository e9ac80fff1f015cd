// The loaded model: languages, limits, measured quality; two sentences to compare.

import {get, post} from './api.js';
import {button, card, field, fill, h, head, hint, meter, stats, table, tongue} from './dom.js';
import {number, percent, score} from './text.js';

const MEASURES = {
	flores_p_at_1_english: 'Translation nearest, with English',
	flores_p_at_1_other: 'Translation nearest, other languages',
	language_flores: 'Language detected',
	language_flores_three_words: 'Language detected, three words',
	language_short: 'Language detected, short sentences',
	passages_mrr_at_10_across: 'Answer in another language (MRR@10)',
	passages_mrr_at_10_across_both: '… with late interaction',
	passages_mrr_at_10_same_language: 'Answer in the same language (MRR@10)',
	passages_mrr_at_10_same_language_both: '… with late interaction',
	short_p_at_1: 'Translation nearest, short sentences',
	sib200_accuracy: 'Topics learned in English',
};

export async function show({main, signal}) {
	const {data} = await get('v1/models', {}, signal);
	fill(main, head('Models', 'They turn texts into points. Texts of the same meaning are close together in any language.'), data.map(describe), attempt());
}

function describe(model) {
	const quality = Object.entries(model.quality);
	return card(model.id, model.device_note && hint(model.device_note),
		stats('dl.stats', [['Version', model.version], ['Languages', number(model.languages.length)], ['Values per embedding', number(model.dimension)], ['Tokens per passage', number(model.tokens_max)], ['Runs on', model.device]]),
		quality.length > 0 && [h('h3', 'Measured quality'), table('Measured quality', ['Measure', '#Value', 'Share'], quality.map(([name, one]) => [MEASURES[name] ?? name, percent(one / 100), meter(one / 100)]))],
		h('h3', 'Languages'), h('ul.cloud', model.languages.map(one => h('li', tongue(one.code)))));
}

function attempt() {
	const [first, second] = ['The library is closed on Mondays.', 'La bibliothèque est fermée le lundi.'].map(value => h('textarea', {rows: 3, value}));
	const answer = h('p.line', {role: 'status'});
	return card('How similar are two sentences?', h('div.split', field('First', first), field('Second', second)), h('div.line', button('Compare', async () => {
		const {results: [{score: cosine}]} = await post('v1/similarity', {pairs: [{first: first.value, second: second.value}]});
		fill(answer, h('b', `cosine ${score(cosine)}`), meter(cosine));
	}, 'primary'), answer));
}
