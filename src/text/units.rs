//! The names and symbols of units of measurement, so that "20 kilograms" finds "20 kg".

/// Each line has the symbol of a unit, and its names in English, German, French, Spanish and Italian, without accents.
const UNITS: [&str; 22] = [
    "km kilometer kilometers kilometre kilometres kilometern kilometro kilometros chilometro chilometri",
    "m meter meters metre metres metern metro metros metri",
    "cm centimeter centimeters centimetre centimetres zentimeter zentimetern centimetro centimetros centimetri",
    "mm millimeter millimeters millimetre millimetres millimetern milimetro milimetros millimetro millimetri",
    "kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes kilogramo kilogramos chilo chili chilogrammi",
    "g gram grams gramm gramme grammes gramo gramos grammo grammi",
    "mg milligram milligrams milligramm milligramme milligrammes miligramo miligramos milligrammi",
    "l liter liters litre litres litern litro litros litri",
    "ml milliliter milliliters millilitre millilitres mililitro mililitros millilitri",
    "h hour hours stunde stunden heure heures hora horas ora ore",
    "min mins minute minutes minuten minuto minutos minuti",
    "s sec secs second seconds sekunde sekunden seconde secondes segundo segundos secondi",
    "kb kilobyte kilobytes",
    "mb megabyte megabytes",
    "gb gigabyte gigabytes",
    "tb terabyte terabytes",
    "w watt watts vatios",
    "kw kilowatt kilowatts",
    "kwh kilowattstunde kilowattstunden",
    "v volt volts voltios",
    "ha hectare hectares hektar hectarea hectareas ettari",
    "t tonne tonnes tonnen tonelada toneladas tonnellate",
];

/// Returns the other names and symbols of a unit, given in lower case.
pub(super) fn other_names(unit: &str) -> impl Iterator<Item = &'static str> {
    let line = UNITS.iter().find(|line| line.split(' ').any(|name| name == unit));
    line.into_iter().flat_map(|line| line.split(' ')).filter(move |name| *name != unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_other_names() {
        let others: Vec<&str> = other_names("kilograms").collect();
        assert!(others.contains(&"kg") && others.contains(&"kilogramm") && !others.contains(&"kilograms"));
        assert_eq!(other_names("gb").collect::<Vec<_>>(), ["gigabyte", "gigabytes"]);
        assert_eq!(other_names("apples").count(), 0);
    }

    #[test]
    fn no_name_belongs_to_two_units() {
        let mut names: Vec<&str> = UNITS.iter().flat_map(|line| line.split(' ')).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
