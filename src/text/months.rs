//! The names of the months in the languages that Dragoman knows, as dates have them: also inflected and abbreviated.

/// What may stand between a day and a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// English: "3rd of May".
    Of,
    /// Spanish, Catalan, Galician and Portuguese: "3 de mayo".
    De,
    /// Nothing but signs: "3. Mai".
    Nothing,
}

/// Returns the names of the months, language by language: the twelve names in one language and form.
pub(super) fn months() -> impl Iterator<Item = (Between, impl Iterator<Item = &'static str>)> {
    let all = [(Between::Of, ENGLISH), (Between::De, WITH_DE), (Between::Nothing, OTHERS)];
    all.into_iter().flat_map(|(between, lines)| lines.iter().map(move |names| (between, names.split(' '))))
}

const ENGLISH: &[&str] = &[
    "january february march april may june july august september october november december",
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mar apr may jun jul aug sept oct nov dec",
];

const WITH_DE: &[&str] = &[
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "ene feb mar abr may jun jul agosto setiembre oct nov dic",
    "gener febrer març abril maig juny juliol agost setembre octubre novembre desembre",
    "xaneiro febreiro marzo abril maio xuño xullo agosto setembro outubro novembro decembro",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "jan fev mar abr mai jun jul agosto setembro outubro nov dez",
];

/// Languages that write the number of a month, such as Chinese, have none. Some abbreviations that are frequent words, such as
/// "set" and "mac", are left out.
const OTHERS: &[&str] = &[
    // Germanic: German, Austrian German, Dutch, Afrikaans, Danish, Norwegian, Swedish.
    "januar februar märz april mai juni juli august september oktober november dezember",
    "jänner feber märz apr mai jun jul aug sept okt nov dez",
    "jan febr mrz apr mai jun jul aug sep okt nov dez",
    "januari februari maart april mei juni juli augustus september oktober november december",
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
    "januarie februarie maart april mei junie julie augustus september oktober november desember",
    "januar februar marts april maj juni juli august september oktober november december",
    "januar februar mars april mai juni juli august september oktober november desember",
    "januari februari mars april maj juni juli augusti september oktober november december",
    // Romance: French, Italian, Romanian.
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "gennaio feb mar apr maggio giu lug agosto settembre ott nov dic",
    "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    // Slavic, in dates and alone: Polish, Czech, Slovak, Slovenian, Croatian, Serbian, Russian, Ukrainian, Bulgarian, Macedonian.
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień",
    "ledna února března dubna května června července srpna září října listopadu prosince",
    "leden únor březen duben květen červen červenec srpen září říjen listopad prosinec",
    "januára februára marca apríla mája júna júla augusta septembra októbra novembra decembra",
    "január február marec apríl máj jún júl august september október november december",
    "januarja februarja marca aprila maja junija julija avgusta septembra oktobra novembra decembra",
    "januar februar marec april maj junij julij avgust september oktober november december",
    "siječnja veljače ožujka travnja svibnja lipnja srpnja kolovoza rujna listopada studenoga prosinca",
    "siječanj veljača ožujak travanj svibanj lipanj srpanj kolovoz rujan listopad studeni prosinac",
    "januara februara marta aprila maja juna jula avgusta septembra oktobra novembra decembra",
    "januar februar mart april maj jun jul avgust septembar oktobar novembar decembar",
    "јануара фебруара марта априла маја јуна јула августа септембра октобра новембра децембра",
    "јануар фебруар март април мај јун јул август септембар октобар новембар децембар",
    "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
    "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
    "січень лютий березень квітень травень червень липень серпень вересень жовтень листопад грудень",
    "януари февруари март април май юни юли август септември октомври ноември декември",
    "јануари февруари март април мај јуни јули август септември октомври ноември декември",
    // Baltic, in dates and alone: Lithuanian, Latvian.
    "sausio vasario kovo balandžio gegužės birželio liepos rugpjūčio rugsėjo spalio lapkričio gruodžio",
    "sausis vasaris kovas balandis gegužė birželis liepa rugpjūtis rugsėjis spalis lapkritis gruodis",
    "janvārī februārī martā aprīlī maijā jūnijā jūlijā augustā septembrī oktobrī novembrī decembrī",
    "janvāris februāris marts aprīlis maijs jūnijs jūlijs augusts septembris oktobris novembris decembris",
    // Uralic: Finnish in dates and alone, Estonian, Hungarian.
    "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta marraskuuta joulukuuta",
    "tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu",
    "jaanuar veebruar märts aprill mai juuni juuli august september oktoober november detsember",
    "január február március április május június július augusztus szeptember október november december",
    // Turkic: Turkish, Kazakh.
    "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "қаңтар ақпан наурыз сәуір мамыр маусым шілде тамыз қыркүйек қазан қараша желтоқсан",
    // Greek in dates and alone, Albanian, Armenian in dates and alone, Basque, Esperanto.
    "ιανουαρίου φεβρουαρίου μαρτίου απριλίου μαΐου ιουνίου ιουλίου αυγούστου σεπτεμβρίου οκτωβρίου νοεμβρίου δεκεμβρίου",
    "ιανουάριος φεβρουάριος μάρτιος απρίλιος μάιος ιούνιος ιούλιος αύγουστος σεπτέμβριος οκτώβριος νοέμβριος δεκέμβριος",
    "janar shkurt mars prill maj qershor korrik gusht shtator tetor nëntor dhjetor",
    "հունվարի փետրվարի մարտի ապրիլի մայիսի հունիսի հուլիսի օգոստոսի սեպտեմբերի հոկտեմբերի նոյեմբերի դեկտեմբերի",
    "հունվար փետրվար մարտ ապրիլ մայիս հունիս հուլիս օգոստոս սեպտեմբեր հոկտեմբեր նոյեմբեր դեկտեմբեր",
    "urtarrila otsaila martxoa apirila maiatza ekaina uztaila abuztua iraila urria azaroa abendua",
    "urtarrilaren otsailaren martxoaren apirilaren maiatzaren ekainaren uztailaren abuztuaren irailaren urriaren azaroaren abenduaren",
    "januaro februaro marto aprilo majo junio julio aŭgusto septembro oktobro novembro decembro",
    // Georgian.
    "იანვარი თებერვალი მარტი აპრილი მაისი ივნისი ივლისი აგვისტო სექტემბერი ოქტომბერი ნოემბერი დეკემბერი",
    "იანვარს თებერვალს მარტს აპრილს მაისს ივნისს ივლისს აგვისტოს სექტემბერს ოქტომბერს ნოემბერს დეკემბერს",
    // Arabic in Egypt, in Algeria and Tunisia, and in Morocco (Levantine names have two words), Persian, Urdu, Hebrew with and
    // without its preposition.
    "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "جانفي فيفري مارس أفريل ماي جوان جويلية أوت سبتمبر أكتوبر نوفمبر ديسمبر",
    "يناير فبراير مارس أبريل ماي يونيو يوليوز غشت شتنبر أكتوبر نونبر دجنبر",
    "ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر نوامبر دسامبر",
    "جنوری فروری مارچ اپریل مئی جون جولائی اگست ستمبر اکتوبر نومبر دسمبر",
    "בינואר בפברואר במרץ באפריל במאי ביוני ביולי באוגוסט בספטמבר באוקטובר בנובמבר בדצמבר",
    "ינואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר",
    // Kurdish (Kurmanji), with the names of two calendars, Burmese.
    "çile sibat adar nîsan gulan hezîran tîrmeh tebax îlon cotmeh mijdar kanûn",
    "rêbendan reşemî adar avrêl gulan pûşper tîrmeh gelawêj rezber kewçêr sermawez berfanbar",
    "ဇန်နဝါရီ ဖေဖော်ဝါရီ မတ် ဧပြီ မေ ဇွန် ဇူလိုင် ဩဂုတ် စက်တင်ဘာ အောက်တိုဘာ နိုဝင်ဘာ ဒီဇင်ဘာ",
    // Hindi, Marathi, Bengali, Gujarati, Tamil, Telugu, Malayalam.
    "जनवरी फ़रवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    "जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितम्बर अक्तूबर नवम्बर दिसम्बर",
    "जानेवारी फेब्रुवारी मार्च एप्रिल मे जून जुलै ऑगस्ट सप्टेंबर ऑक्टोबर नोव्हेंबर डिसेंबर",
    "জানুয়ারি ফেব্রুয়ারি মার্চ এপ্রিল মে জুন জুলাই আগস্ট সেপ্টেম্বর অক্টোবর নভেম্বর ডিসেম্বর",
    "જાન્યુઆરી ફેબ્રુઆરી માર્ચ એપ્રિલ મે જૂન જુલાઈ ઑગસ્ટ સપ્ટેમ્બર ઑક્ટોબર નવેમ્બર ડિસેમ્બર",
    "ஜனவரி பிப்ரவரி மார்ச் ஏப்ரல் மே ஜூன் ஜூலை ஆகஸ்ட் செப்டம்பர் அக்டோபர் நவம்பர் டிசம்பர்",
    "జనవరి ఫిబ్రవరి మార్చి ఏప్రిల్ మే జూన్ జులై ఆగస్టు సెప్టెంబర్ అక్టోబర్ నవంబర్ డిసెంబర్",
    "ജനുവരി ഫെബ്രുവരി മാർച്ച് ഏപ്രിൽ മേയ് ജൂൺ ജൂലൈ ഓഗസ്റ്റ് സെപ്റ്റംബർ ഒക്ടോബർ നവംബർ ഡിസംബർ",
    // Indonesian, Malay, Javanese, Swahili, Tagalog.
    "januari februari maret april mei juni juli agustus september oktober november desember",
    "januari februari march april mei jun julai ogos september oktober november disember",
    "januari februari machi aprili mei juni julai agosti septemba oktoba novemba desemba",
    "enero pebrero marso abril mayo hunyo hulyo agosto setyembre oktubre nobyembre disyembre",
    // Thai.
    "มกราคม กุมภาพันธ์ มีนาคม เมษายน พฤษภาคม มิถุนายน กรกฎาคม สิงหาคม กันยายน ตุลาคม พฤศจิกายน ธันวาคม",
];
