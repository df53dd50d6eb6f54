use super::*;

fn response(status: u16, body: &str) -> Response {
    Response {
        status,
        body: body.as_bytes().to_vec(),
    }
}

fn results(batch: Batch) -> Vec<Option<String>> {
    match batch {
        Batch::Answers(answers) => answers
            .into_iter()
            .map(|answer| answer.ok().map(|raw| raw.get().to_owned()))
            .collect(),
        Batch::Refused(fault) | Batch::Failed(fault) => panic!("{fault}"),
    }
}

#[test]
fn answers_are_matched_by_id_in_any_order() {
    let body = r#"[{"id":8,"result":"b"},{"id":"7","result":"a"},{"id":9,"result":null}]"#;
    let got = results(read_batch(&response(200, body), 7, 3));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(got, [some("\"a\""), some("\"b\""), some("null")]);
}

#[test]
fn a_missing_a_doubled_and_a_foreign_id_answer_nothing() {
    let body = r#"[{"id":0,"result":1},{"id":1,"result":1},{"id":1,"result":2},{"id":1,"result":3},
        {"id":77,"result":3},{"id":null,"result":4},{"result":5},"x",{"id":3}]"#;
    let Batch::Answers(answers) = read_batch(&response(200, body), 0, 4) else {
        panic!("no answers");
    };
    assert!(answers[0].is_ok());
    assert_eq!(answers[1].as_ref().unwrap_err(), &Fault::Unanswered);
    assert_eq!(answers[2].as_ref().unwrap_err(), &Fault::Unanswered);
    assert!(matches!(answers[3], Err(Fault::Garbled(_))));
}

#[test]
fn a_batch_that_is_not_taken_is_told_from_an_endpoint_that_fails() {
    let no_batches = r#"{"id":null,"error":{"code":-32600,"message":"no batches"}}"#;
    let each = r#"[{"id":0,"error":{"code":-32000,"message":"batch too large"}}]"#;
    let refused = [
        (200, no_batches),
        (400, no_batches),
        (413, "too large"),
        (200, "[]"),
        (200, each),
        (200, "<html>"),
        (502, r#"[{"id":0,"result":1}]"#),
        (301, ""),
    ];
    for (status, body) in refused {
        let got = read_batch(&response(status, body), 0, 2);
        assert!(matches!(got, Batch::Refused(_)), "{status} {body}: {got:?}");
    }
    let limited = r#"{"id":null,"error":{"code":-32005,"message":"slow down"}}"#;
    for (status, body) in [(429, "[]"), (200, limited)] {
        let got = read_batch(&response(status, body), 0, 2);
        assert!(matches!(got, Batch::Failed(fault) if fault.is_limit()));
    }
}

#[test]
fn a_single_answer_must_name_its_call() {
    let check = |status, body: &str, expected: Result<&str, Fault>| {
        let got = read_single(&response(status, body), 5).map(|raw| raw.get().to_owned());
        assert_eq!(got, expected.map(ToOwned::to_owned), "{body}");
    };
    let node = |code, message: &str, data: Option<&str>| Fault::Node {
        code,
        message: message.to_owned(),
        data: data.map(ToOwned::to_owned),
    };
    check(200, r#"{"id":5,"result":{"a":1}}"#, Ok(r#"{"a":1}"#));
    check(200, r#"{"id":5,"result":null}"#, Ok("null"));
    let other = Fault::Garbled("it names another call");
    check(200, r#"{"id":6,"result":1}"#, Err(other.clone()));
    check(200, r#"{"result":1}"#, Err(other));
    let error = r#"{"id":null,"error":{"code":-32700,"message":"parse error"}}"#;
    check(400, error, Err(node(-32700, "parse error", None)));
    let reverted = r#"{"id":5,"error":{"code":3,"message":"execution reverted","data":"0x01"}}"#;
    let expected = node(3, "execution reverted", Some("0x01"));
    check(200, reverted, Err(expected));
    let within = r#"{"id":5,"error":{"code":3,"message":"m","data":{"data":"0x02"}}}"#;
    check(200, within, Err(node(3, "m", Some("0x02"))));
    let parity = r#"{"id":5,"error":{"code":-32015,"message":"m","data":"Reverted 0x03"}}"#;
    check(200, parity, Err(node(-32015, "m", Some("0x03"))));
    let plain = r#"{"id":5,"error":"plain"}"#;
    check(200, plain, Err(node(0, "plain", None)));
    let strange = Fault::Garbled("an error without code and message");
    check(200, r#"{"id":5,"error":7}"#, Err(strange));
    check(404, "nothing here", Err(Fault::Status(404)));
    check(502, r#"{"id":5,"result":1}"#, Err(Fault::Status(502)));
    let garbled = Fault::Garbled("no JSON-RPC");
    check(200, "nothing here", Err(garbled.clone()));
    check(200, r#"{"id":5,"result":1,"result":2}"#, Err(garbled));
}

#[test]
fn bodies_are_json_rpc() {
    let call = Call::new("eth_getBlockByNumber", &[&quoted("0x1"), "false"]);
    let one = r#"{"jsonrpc":"2.0","id":3,"method":"eth_getBlockByNumber","params":["0x1",false]}"#;
    assert_eq!(single(&call, 3), one);
    let two = one.replace("\"id\":3", "\"id\":4");
    let both = batch([call.clone(), call].iter(), 3);
    assert_eq!(both, format!("[{one},{two}]"));
}
