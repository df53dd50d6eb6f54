//! A client's words to a payload: every field is read, every rule that a node checks unseen is
//! checked, and everything that is wrong is told at once.

use super::{Access, Ceilings, Draft, Fault, Fees, Fields, Invalid, Payload};
use crate::amount::{self, Unreadable};
use crate::gas;

impl Payload {
    /// Reads and checks every field, and tells everything that is wrong at once.
    pub fn parse<T: AsRef<str>>(
        draft: &Draft<T>,
        ceilings: Ceilings,
    ) -> Result<Self, Vec<Invalid>> {
        let mut wrong = Wrong::default();
        let payload = Self::from(Fields {
            to: wrong.read("to", text(&draft.to), amount::address),
            value: wrong.read("value", text(&draft.value), amount::number),
            data: wrong.read("data", text(&draft.data), amount::bytes),
            gas: wrong.read("gas", text(&draft.gas), amount::gas),
            fees: read_fees(draft, ceilings, &mut wrong),
            access: wrong.read("accessList", draft.access_list.as_deref(), read_access),
        });
        // Rules over several fields would only repeat that one of them is unreadable.
        if wrong.0.is_empty() {
            payload.check_size(&mut wrong);
            payload.check_gas(&mut wrong);
        }
        if wrong.0.is_empty() {
            Ok(payload)
        } else {
            Err(wrong.0)
        }
    }

    fn check_size(&self, wrong: &mut Wrong) {
        // Spelled here, by whoever took it in: those who store it write for everybody.
        let bytes = self.canonical().len() + gas::ENVELOPE_BYTES;
        if bytes > gas::TX_BYTES_MAX {
            wrong.add(
                "data",
                Fault::TooManyBytes {
                    bytes,
                    max: gas::TX_BYTES_MAX,
                },
            );
        }
        if self.0.fields.to.is_none() {
            let code = self.data().len();
            if code == 0 {
                wrong.add("to", Fault::NoReceiver);
            } else if code > gas::INIT_CODE_BYTES_MAX {
                let max = gas::INIT_CODE_BYTES_MAX;
                wrong.add("data", Fault::TooManyBytes { bytes: code, max });
            }
        }
    }

    fn check_gas(&self, wrong: &mut Wrong) {
        let least = gas::least(self.0.fields.to.is_none(), self.data(), self.access());
        let Some(gas) = self.0.fields.gas else {
            // No gas limit can help when the bytes alone cost more than the cap.
            if least > gas::GAS_MAX {
                wrong.add("data", Fault::GasAbove(gas::GAS_MAX));
            }
            return;
        };
        if gas < least {
            wrong.add("gas", Fault::GasBelow(least));
        } else if gas > gas::GAS_MAX {
            wrong.add("gas", Fault::GasAbove(gas::GAS_MAX));
        }
    }
}

#[derive(Default)]
struct Wrong(Vec<Invalid>);

impl Wrong {
    fn add(&mut self, field: &'static str, why: Fault) {
        self.0.push(Invalid { field, why });
    }

    fn read<I, T>(
        &mut self,
        field: &'static str,
        given: Option<I>,
        parse: impl FnOnce(I) -> Result<T, Unreadable>,
    ) -> Option<T> {
        match parse(given?) {
            Ok(value) => Some(value),
            Err(why) => {
                self.add(field, why.into());
                None
            }
        }
    }
}

fn text<T: AsRef<str>>(given: &Option<T>) -> Option<&str> {
    given.as_ref().map(AsRef::as_ref)
}

fn read_access<T: AsRef<str>>(entries: &[(T, Vec<T>)]) -> Result<Vec<Access>, Unreadable> {
    let one = |(address, keys): &(T, Vec<T>)| {
        let keys = keys
            .iter()
            .map(|key| amount::word(key.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Access {
            address: amount::address(address.as_ref())?,
            keys,
        })
    };
    entries.iter().map(one).collect()
}

fn read_fees<T: AsRef<str>>(draft: &Draft<T>, ceilings: Ceilings, wrong: &mut Wrong) -> Fees {
    let price = wrong.read("gasPrice", text(&draft.gas_price), amount::wei_per_gas);
    let cap_text = text(&draft.max_fee_per_gas);
    let cap = wrong.read("maxFeePerGas", cap_text, amount::wei_per_gas);
    let tip_text = text(&draft.max_priority_fee_per_gas);
    let tip = wrong.read("maxPriorityFeePerGas", tip_text, amount::wei_per_gas);

    let limits = [
        ("gasPrice", price, ceilings.max_fee),
        ("maxFeePerGas", cap, ceilings.max_fee),
        ("maxPriorityFeePerGas", tip, ceilings.max_priority_fee),
    ];
    for (field, given, ceiling) in limits {
        if given.is_some_and(|fee| fee > ceiling) {
            wrong.add(field, Fault::AboveCeiling(ceiling));
        }
    }
    let dynamic = cap_text.is_some() || tip_text.is_some();
    if draft.gas_price.is_some() && dynamic {
        wrong.add("gasPrice", Fault::TwoFeeStyles);
    }
    if let (Some(tip), Some(cap)) = (tip, cap)
        && tip > cap
    {
        wrong.add("maxPriorityFeePerGas", Fault::TipAboveCap);
    }
    match price {
        Some(gas_price) => Fees::Legacy { gas_price },
        None if dynamic => Fees::Dynamic {
            max_fee: cap,
            max_priority_fee: tip,
        },
        None => Fees::Ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILINGS: Ceilings = Ceilings {
        max_fee: 500,
        max_priority_fee: 50,
    };
    const TO: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

    fn draft() -> Draft {
        Draft {
            to: Some(TO.to_owned()),
            ..Draft::default()
        }
    }

    fn faults(draft: &Draft) -> Vec<(&'static str, Fault)> {
        match Payload::parse(draft, CEILINGS) {
            Ok(_) => vec![],
            Err(wrong) => wrong.into_iter().map(|w| (w.field, w.why)).collect(),
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn every_wrong_field_is_told_at_once() {
        let wrong = Draft {
            to: some("0x1"),
            value: some("-1"),
            data: some("0xf"),
            gas: some("much"),
            gas_price: some("501"),
            max_fee_per_gas: some("10"),
            max_priority_fee_per_gas: some("11"),
            access_list: Some(vec![(TO.to_owned(), vec!["0x00".to_owned()])]),
        };
        let fields: Vec<_> = faults(&wrong).into_iter().map(|(field, _)| field).collect();
        for field in [
            "to",
            "value",
            "data",
            "gas",
            "gasPrice",
            "maxPriorityFeePerGas",
            "accessList",
        ] {
            assert!(fields.contains(&field), "{field} is not among {fields:?}");
        }
    }

    #[test]
    fn fee_styles_exclude_each_other_and_stay_below_the_ceilings() {
        let check = |price: &str, cap: &str, tip: &str, expected: &[(&'static str, Fault)]| {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let draft = Draft {
                gas_price: given(price),
                max_fee_per_gas: given(cap),
                max_priority_fee_per_gas: given(tip),
                ..draft()
            };
            assert_eq!(faults(&draft), expected, "{price:?} {cap:?} {tip:?}");
        };
        check("500", "", "", &[]);
        check("", "500", "50", &[]);
        check("", "", "50", &[]);
        check("1", "1", "", &[("gasPrice", Fault::TwoFeeStyles)]);
        check("1", "", "1", &[("gasPrice", Fault::TwoFeeStyles)]);
        check("501", "", "", &[("gasPrice", Fault::AboveCeiling(500))]);
        check("", "501", "", &[("maxFeePerGas", Fault::AboveCeiling(500))]);
        check(
            "",
            "",
            "51",
            &[("maxPriorityFeePerGas", Fault::AboveCeiling(50))],
        );
        check(
            "",
            "10",
            "11",
            &[("maxPriorityFeePerGas", Fault::TipAboveCap)],
        );
    }

    #[test]
    fn gas_and_size_are_within_what_every_node_takes() {
        let with = |gas: &str, bytes: usize| Draft {
            gas: (!gas.is_empty()).then(|| gas.to_owned()),
            data: Some(format!("0x{}", "00".repeat(bytes))),
            ..draft()
        };
        assert_eq!(faults(&with("21000", 0)), []);
        assert_eq!(
            faults(&with("20999", 0)),
            [("gas", Fault::GasBelow(21_000))]
        );
        assert_eq!(faults(&with("0x1000000", 0)), []);
        assert_eq!(
            faults(&with("0x1000001", 0)),
            [("gas", Fault::GasAbove(gas::GAS_MAX))]
        );
        assert_eq!(faults(&with("", 130_000)), []);
        let large = faults(&with("", gas::TX_BYTES_MAX));
        assert!(
            matches!(large[..], [("data", Fault::TooManyBytes { .. })]),
            "{large:?}"
        );
    }

    #[test]
    fn without_a_receiver_there_must_be_code_of_a_legal_size() {
        let creation = |code: Option<String>| Draft {
            data: code,
            ..Draft::default()
        };
        assert_eq!(faults(&creation(some("0x60"))), []);
        assert_eq!(faults(&creation(None)), [("to", Fault::NoReceiver)]);
        assert_eq!(faults(&creation(some("0x"))), [("to", Fault::NoReceiver)]);
        let code = format!("0x{}", "60".repeat(gas::INIT_CODE_BYTES_MAX + 1));
        let long = faults(&creation(Some(code)));
        assert!(
            matches!(long[..], [("data", Fault::TooManyBytes { .. })]),
            "{long:?}"
        );
    }
}
