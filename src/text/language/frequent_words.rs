//! Frequent words of the languages in Latin script, to tell them apart.
//!
//! Counted in mixed text and chosen by how much more frequent a word is in one language than in the others. A word that
//! a close relative shares is in both rows, so that it is evidence for neither.

/// The code of a language and its words in lower case, separated by one space.
pub(super) const FREQUENT_WORDS: [(&str, &str); 36] = [
    (
        "af",
        "die n en van in dat het te is ek jy nie hy sy my ons vir dit hierdie jou hulle sal wat baie om was toe met op \
            gaan wil haar moet wees oor gesê aan hom maak daar word werk se as by ander mense nuwe soos nou asseblief so dis \
            kinders gee geen u uit hoe",
    ),
    (
        "ca",
        "i el la els les de amb en un una per que del al és no va més ell molt aquest hi està què té vaig aquesta tinc \
            fer ha seva com quan meva dels són això cap anys vull ella fa es em tots però van ho ja als ni després perquè \
            ara només fins sense on pel encara estat mi se dos meu seu estava son si cosa lo",
    ),
    (
        "cs",
        "a v na se je že si to kteří jsem jsi byl co jsou mám není ještě mě má pro jste můj jsme když jak nebo rád kdo \
            proč být byla tě s než bych kde jako velmi tady dnes bylo já jeho chci kolik své ve které který řekl před něco \
            pokud nic všechny protože její může této ze dobře den aby tento k chcete z každý by toto",
    ),
    (
        "da",
        "i at og som til er jeg det ikke af har han du for på hun hvad mig meget der med et den vil var ved hvor kan dig \
            min denne så dette havde fra blev taler sagde ud lide alle eller op end noget hende mit hendes os mere bliver \
            blive gøre sprog blevet tilbage sidste gik ind uden siger mellem nogle endnu hjælp nogen begyndte fik næste \
            efter kun igen arbejde når vi",
    ),
    (
        "de",
        "ist ich nicht das sie der ein zu und die eine auf hat von habe sich du war er dass mir mich für es wir sind \
            einen mit kann aus bist sehr im dem haben mein diese sein hast bin",
    ),
    (
        "en",
        "the of to a you that he and this don't it have is with are his your i'm not in what can how like know did she be \
            was my want from for him will there if they about think we all",
    ),
    (
        "eo",
        "estas ĉu la mi vi kaj ne ĉi havas al ŝi estis li tiu povas tio pli kiel kiu ili mia ke volas kion tion kiam ĝi \
            scias pri via por ŝatas plej ĉiuj ol kie tiun vin kun sed",
    ),
    (
        "es",
        "el y los las una su mi con del por lo se al un en que es él no qué ella más tiene está muy tengo yo estoy dónde \
            para gusta fue cuando eso esta cómo hay puede tiempo soy mucho quiero puedo estaba ahora le sus años sin hoy \
            mañana siempre hasta ayer después pero también como ha dos pelo son la de ni si cosa van",
    ),
    (
        "et",
        "on ma oma ja ta kui ei see et või seda kas selle mida oli ära oled mis ütles mul tema nad ole sinu nende pärast \
            läks meie igal minu välja mulle üle talle kõik tagasi võib ning kuid nii",
    ),
    (
        "eu",
        "du da ez ari eta bat dut egin zuen zure dira nahi dago zen izan hau duzu nire naiz behar edo hori egiten esan \
            bere zer ere dute baino ezin oso zara ditu baina joan gehiago dugu izango nuen asko duen ikusi batean azken \
            batek nola ditut gara gure hemen eman beste orain bezala gabe ziren zuten baita ondoren hala dela dena zaio arte \
            hura haren zituen dezake daiteke",
    ),
    (
        "fi",
        "hän on minä että ei ole olen tämä mitä sinä minun hänen ja kuin minulla onko oli ovat sinun olet älä minulle \
            niin minua paljon mutta sitä kaikki joka nyt missä sinua kuinka hyvin täällä hänellä voi vain haluan sen",
    ),
    (
        "fr",
        "est à le vous il pas elle une pour les c'est ce nous des dans j'ai tu je plus cette suis sont que et mon avec \
            qui fait ça tout très n'est au était moi ils faire elles sur été",
    ),
    (
        "gl",
        "o os do da dos das no na ao con en un unha se por que para non é máis e súa á seu as cando como facer ou ten \
            miña teño xa está dereito ela meu mañá persoa esta foi son quen moito polo pola aos hai sen co nun aínda coa ás \
            tamén dixo persoas dun dunha moi súas nunha iso ata dous xente mentres lle nin puido cun algunha ningunha tiña \
            fixo outro despois el estaba pero estou eles nós pelo de van si sei lo",
    ),
    (
        "hr",
        "je i u na se da za su koji od s iz po bi sam što nije će kako li tko više mogu kao bio smo ima biti još dobro \
            gdje bilo sve prije ona danas tako ću pravo nego nisam taj ovo moj ovdje svatko ili nakon godine može zbog nema \
            već ove kada dok prema kad vrijeme također nisu uvijek sada tijekom ni pa ali želite pri tri",
    ),
    (
        "hu",
        "az nem egy hogy van volt vagyok vagy és ez ezt még nagyon már meg én kell azt minden jó ő nekem mint csak itt \
            hol nincs miért két tudom sok olyan ki jól amikor új milyen amit mindig neked",
    ),
    (
        "id",
        "yang dan di ini untuk pada tidak dengan saya itu dia kamu dari anda akan ada orang aku apa ke bisa karena kami \
            dalam sudah ingin apakah adalah harus lebih mereka bahwa hari pergi suara bahasa ia banyak kita telah kesehatan \
            lainnya bagian saja teman punya meskipun kelompok terkait berbagai uang kantor mobil saat setelah pria hewan \
            perusahaan pemerintah polisi berbeda membuat mengatakan mencoba tim inggris olahraga ketika belum universitas \
            wilayah kepada boleh atau setiap oleh tahun negara masa secara mempunyai kereta berkata sebelum",
    ),
    (
        "it",
        "il la di che e un una per con del nel si al è sono non io ha questo ho più mio lei molto della questa erano le \
            loro gli lui suo come piace tutti cosa dei hanno perché essere sei ci hai delle tutto su mi lo se da sua quando \
            disse i fa però mia tuo tua ogni",
    ),
    (
        "jv",
        "aku ing lan sing neng ana ora iki kang ning karo merga saka dadi saben uwong arep iku wis wingi kuwi taun kanthi \
            dina nganggo nek hak lungo wong kanggo utawa akeh bengi mlaku basa gawe omah wae sinau bocah kudu kaya nalika \
            yèn bakal uga marang",
    ),
    (
        "ku",
        "ku li ji bi di de û ev xwe bo ye ew ê jî wî yên bike wan heye fêr dibim ez bû lê wê bikin ya kir ber vê an tê \
            dike em dema dibe dikin kirin yê ên bibe kesên wekî piştî hene dikare weke gelek çi hebû niha kurdî jê nîne bûn \
            çû gava dikim diçim zimanê her",
    ),
    (
        "lt",
        "į ir kad aš yra jis tai ar buvo savo mano kaip iš ką tu turi jie labai man tavo taip ji kodėl mes tau gali čia \
            apie su tą nėra mūsų kai nuo tik esu mane nori nors jo",
    ),
    (
        "lv",
        "ir lai kā uz mēs vai par viņš ka ar viņa bija es tas savu arī kas mūsu tiesības tā pēc nav jūs šo ikvienam no \
            jūsu mums viņi ļoti viņu vairāk viņam tika taču bet tev jums kad teica",
    ),
    (
        "ms",
        "yang dan di ini untuk pada tidak dengan saya dalam akan kepada daripada hari telah boleh itu ke ada orang kerana \
            dia atau adalah setiap mereka oleh lebih rumah tahun pergi selepas bahawa negara masa tiada dari satu secara \
            mempunyai semasa apabila semula kerajaan syarikat rawatan kanak beliau teruk kawasan baharu awam berbanding \
            ramai senarai bahagian sahaja pelbagai mengikut sila cuba kesihatan ialah sebarang bilangan manakala polis wang \
            kereta berkata universiti ahli hospital sebelum perdana pasukan anda apa kami sudah ingin bahasa ia banyak kita \
            lainnya saja setelah membuat mengatakan ketika belum wilayah",
    ),
    (
        "nb",
        "i at og som til å jeg er ikke det på av for har du han med deg hva meg hun seg dette vil var et så den fra ble \
            kan hadde noen denne noe veldig når liker vi etter enn opp nå gjøre inn mye aldri blitt igjen uten sier mellom \
            siste gikk tilbake lenge gjennom fortsatt slik viktig beste språk arbeid hjelp fikk ut mer bli blir bruker der \
            ved hvor min alle eller kun",
    ),
    (
        "nl",
        "de het een en van in dat ik niet hij is zijn heb heeft mijn voor ze op deze naar je met ben geen aan hebben we \
            mij wat was zal dit als om u zij uit uw bij zou hoe worden er wij hem over zo door wordt nu kunnen mensen zich \
            werd tijd andere jij te ons toe gaan wil haar moet maak daar werk",
    ),
    (
        "pl",
        "jest się w nie że czy z jestem mnie mam bardzo jak są co już tego mój był jego tym jesteś dla mogę gdzie tylko \
            domu kiedy przez ona może być cię ten masz było jeszcze dobrze niż proszę lubię",
    ),
    (
        "pt",
        "o os do da dos das no na ao com em um uma se por que não é você ele eu ela muito para está tem mais minha são \
            isso e tenho foi estou as sua como meu há bem seu eles fazer aqui estão quando estava nós sou à mas pessoas \
            também até ainda quem disse sem essa esse dois depois tudo melhor lhe têm tão pelo esta ou aos outro de sei lo \
            si",
    ),
    (
        "ro",
        "să în nu și este cu sunt am că pentru pe mai fost mă foarte ce care din ea când îmi mea place trebuie lui mult \
            asta au vreau bine ai ca unde spus acest ești vă meu rog nevoie",
    ),
    (
        "sk",
        "a v na sa je že som si nie to ktorí pre alebo ktoré ako ak aby s byť sú tento môžete k vo chcete žiadne ktorý z \
            keď bol ste každý aj budú tohto by jeho toto povedal má počas reči môže len ktorá čo pred bola pri ich tejto \
            viac zo pretože podľa so všetky sme ľudí veľmi teraz než kde",
    ),
    (
        "sl",
        "je in v na se da za ki ni s z pa po bi tako lahko tudi leta čo že ali kde kot še bol jih môj pravico več če bodo \
            želite vsakdo pri iz ty ešte hovorím hovoríš tri bo ko dejal zaradi tem bil vse med sem ob kar saj ker morda \
            zdaj vendar sta kje tega čas kako smo ima biti bilo ona",
    ),
    (
        "sq",
        "të në për dhe një e që është nuk nga më së ose këtë dhënave duke kjo ka janë duhet shumë tyre tij kanë gjithkush \
            nëse tha çdo ky prej ju ajo rreth mbi ishte gjatë mirë parë jeni edhe pasi kishte vetëm përpara disa atë unë jam \
            sot këtu tani çfarë",
    ),
    (
        "sv",
        "i att och som jag är inte för det till hon här du på har ett han vad mig vill var hur med den dig av om när \
            mycket från ska hade kan kommer skulle måste min sig där upp honom",
    ),
    (
        "sw",
        "wa na ya ni kwa katika kwenye yake kuwa cha vya kutoka kila watu alikuwa siku za zaidi lakini kama wake wakati \
            juu mtu ndani chini alisema kazi ilikuwa hii kwamba baada haki yangu hivyo pamoja mmoja tena moja maji sana pia \
            hadi ikiwa muda nchi ambayo ambao huu sababu mimi wewe hapa watoto habari kuna hiyo wao sisi yao nini bila huo \
            hizi hao",
    ),
    (
        "tl",
        "ang ng sa mga ay hindi siya niya isang ko nang mo at ito may kanyang ako kung gusto ba kong walang araw ka lahat \
            siyang para akong iyon bahay anong akin noong alam aking nila sila dahil kailangan tao",
    ),
    (
        "tr",
        "bir bu çok için onun ve onu daha ben benim bana değil iyi kadar mı zaman şey var yok hiç lütfen bunu onlar nasıl \
            beni olduğunu her istiyorum kız burada musun önce nerede senin etti sonra şimdi gibi neden büyük",
    ),
    (
        "vi",
        "tôi không có anh của một bạn đã người là và ấy được đi cho này cô nói chúng ở trong sẽ thể làm với đó đến để khi \
            cái những phải vào nhà các rất ông học nó lại",
    ),
    (
        "yo",
        "ń tó a àwọn ní ó tí láti náà ti fún ṣe àti rẹ̀ sí wọn sì kò ni jẹ́ pé lọ wọ́n kí ilé bí sọ kan pẹ̀lú awọn ló \
            nínú yìí tàbí ohun bá fi ọmọ gbogbo kọ̀ọ̀kan jẹ ẹ ọ rẹ mọ wà lórí ẹgbẹ́ iṣẹ́ ṣé kì mo orílẹ̀ lè",
    ),
];
