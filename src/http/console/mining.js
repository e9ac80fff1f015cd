// Mining translation pairs: starting a job, and reviewing its pairs.

import {get, lines, path, post, save} from './api.js';
import {button, empty, failed, field, fieldsOf, fill, h, head, hint, may, passage, pickCollection, said, select, tongue} from './dom.js';
import {card, showJob} from './jobs.js';
import {counted, number, plural, score, short} from './text.js';

const PAIRS_MOST = 20000;
const TONES = {accepted: 'good', rejected: 'bad'};

export const show = page => (page.args[0] ? review(page, page.args[0]) : overview(page));

async function overview({main, signal}) {
	const [known, {jobs}] = await Promise.all([get('v1/collections', {limit: 200}, signal), get('v1/jobs', {type: 'mine', limit: 30}, signal)]);
	const first = known.collections.find(one => one.documents > 0) ?? (known.next_cursor && known.collections[0]);
	fill(main, head('Mining', 'Finds translations: pairs of sentences that are nearer to each other than to their neighbors.'),
		may('write') && (first ? start(known, first) : empty('Nothing to mine', 'Create a collection with documents in two languages first.')),
		jobs.length > 0 && h('section.stack', h('h2', 'Jobs'), h('ul.jobs', jobs.map(job => card(job).element))));
}

function start(known, first) {
	const side = (title, rank) => {
		const place = h('div.pair');
		const draw = ({name, languages}, language) => {
			place.chosen = {collection: name, languages: language && [language]};
			fill(place, field(`${title} side`, pickCollection(known, name, value => get(path('collections', value)).then(draw).catch(failed))),
				field('Language', select([['', 'all languages'], ...counted(languages)], language, value => { place.chosen.languages = value ? [value] : undefined; })));
		};
		draw(first, counted(first.languages)[rank]?.[0]);
		return place;
	};
	const sides = [side('First', 0), side('Second', 1)];
	const {elements, values} = fieldsOf({
		threshold: ['Minimum score', {type: 'number', step: '0.01', value: '1.1'}, 'Above 1: nearer to each other than to their neighbors'],
		neighbors: ['Neighbors', {type: 'number', min: 1, max: 64, value: '4'}, 'Each side needs at least as many sentences'],
	});
	return h('section.card', h('div.split', sides), h('div.pair', elements), h('div', button('Find pairs', async () => {
		const job = await post('v1/mine', {first: sides[0].chosen, second: sides[1].chosen, ...values()});
		location.hash = `#/mining/${job.id}`;
	}, 'primary')));
}

async function review({main, signal}, id) {
	const place = h('div.stack');
	const first = await get(path('jobs', id), {}, signal);
	fill(main, head('Review pairs', null, h('a.button', {href: '#/mining'}, 'All mining')), place);
	const job = first.status === 'succeeded' ? first : await showJob(place, first, signal);
	if (job.status !== 'succeeded') return;
	const {lines: pairs, more} = await lines(path('jobs', id, 'pairs'), {signal, most: PAIRS_MOST});
	if (pairs.length === 0) fill(place, empty('No pairs', 'No pair stands out enough. Try a lower minimum score.'));
	else decide(place, id, pairs, more, signal);
}

function decide(place, id, pairs, more, signal) {
	const slot = `dragoman.review.${id}`;
	// Stores only positions and decisions, for a reload; no text and no key.
	const decided = new Map(JSON.parse(sessionStorage.getItem(slot) ?? '[]'));
	const [low, high] = [pairs.at(-1).score, pairs[0].score];
	let at = Math.max(0, pairs.findIndex((_, place) => !decided.has(place)));
	const count = h('output.hint');
	const queue = h('ol.queue.card');
	const now = h('article', {'aria-live': 'polite'});
	const slider = h('input', {type: 'range', min: low, max: high, step: (high - low) / 500 || 0.001, value: low, oninput: () => draw()});
	// Best pairs first.
	const kept = () => pairs.filter(pair => pair.score >= Number(slider.value) - 1e-9).length;
	const state = place => decided.has(place) && h(`span.state.${TONES[decided.get(place)]}`, decided.get(place));

	const take = decision => {
		if (decision === 'back') at = Math.max(0, at - 1);
		else if (at < kept()) {
			decided.set(at, decision);
			at += 1;
		}
		sessionStorage.setItem(slot, JSON.stringify([...decided]));
		draw();
	};
	const half = side => h('div', tongue(side.language), passage(side.text, [], side.language), h('span.mono.hint', short(side.id ?? '', 60)));
	const draw = () => {
		const total = kept();
		const pair = at < total && pairs[at];
		const tally = what => number([...decided].filter(([place, one]) => place < total && one === what).length);
		now.className = `card review ${decided.get(at) ?? ''}`;
		fill(now, pair ? [h('p.line', h('b', `Pair ${number(at + 1)}`), h('span.hint', `score ${score(pair.score)}`), state(at)), h('div.twin', half(pair.first), half(pair.second))]
			: empty('All reviewed', 'No pairs are left above this score.'));
		count.textContent = `${plural(total, 'pair')} of ${number(pairs.length)} at ${score(Number(slider.value))} or above · ${tally('accepted')} accepted, ${tally('rejected')} rejected`;
		const from = Math.max(0, Math.min(at - 2, total - 8));
		fill(queue, pairs.slice(from, Math.min(from + 8, total)).map(({score: value, first, second}, step) => h('li', {'aria-current': from + step === at && 'true'}, h('span.num', score(value)),
			[first, second].map(side => said('p', side.language, short(side.text, 120))), h('span', state(from + step)))));
	};
	const download = () => {
		const plain = text => String(text ?? '').replace(/[\t\r\n\v\f\u0085\u2028\u2029]/g, ' ');
		const rows = pairs.slice(0, kept()).filter((_, place) => decided.get(place) === 'accepted')
			.map(({score: value, first, second}) => [value, first.id, second.id, first.text, second.text].map(plain).join('\t'));
		save(new Blob([`score\tfirst_id\tsecond_id\tfirst_text\tsecond_text\n${rows.join('\n')}\n`], {type: 'text/tab-separated-values'}), 'pairs.tsv');
	};
	const say = (label, letter, decision, sign) => button([label, h('kbd', {'aria-hidden': 'true'}, letter)], () => take(decision), '', {sign, 'aria-keyshortcuts': letter});

	addEventListener('keydown', event => {
		if (event.target.closest('input[type=text], textarea, select, dialog') || event.ctrlKey || event.metaKey || event.altKey) return;
		const decision = {a: 'accepted', r: 'rejected', u: 'back', ...(event.target !== slider && {arrowright: 'accepted', arrowleft: 'rejected'})}[event.key?.toLowerCase()];
		if (!decision) return;
		event.preventDefault();
		take(decision);
	}, {signal});
	fill(place, more && h('p.notice', `Only the best ${number(PAIRS_MOST)} pairs are shown. All of them: GET ${path('jobs', id, 'pairs')}`),
		now, h('div.line', say('Accept', 'A', 'accepted', 'check'), say('Reject', 'R', 'rejected', 'close'), say('Back', 'U', 'back', 'up'), count, h('span.actions', button('Save accepted as TSV', download, '', {sign: 'down'}))),
		h('section.card', field('Minimum score', slider)), h('h2', 'Next pairs'), queue);
	draw();
}
