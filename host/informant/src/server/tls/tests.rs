//! Certificates in files that are fine, broken, foreign to each other, or out of their time.

use std::fs;

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a certificate that is valid in these years, and its key.
    fn write(&self, name: &str, years: (i32, i32)) {
        let key = KeyPair::generate().unwrap();
        let mut about = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        about.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        about.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let signed = about.self_signed(&key).unwrap();
        fs::write(self.path(&format!("{name}.crt")), signed.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn load(&self, certificate: &str, key: &str) -> Result<Certificate, String> {
        let (certificate, key) = (self.path(certificate), self.path(key));
        let files = CertificateFiles::read(&certificate, &key);
        let loaded = files.and_then(|files| files.parse(&certificate, &key));
        loaded.map_err(|problem| self.without_path(&problem))
    }

    fn without_path(&self, problem: &CertificateProblem) -> String {
        problem
            .to_string()
            .replace(&format!("{}/", self.0.path().display()), "")
    }
}

#[test]
fn certificate_of_files_knows_when_it_expires() {
    let folder = Folder::new();
    folder.write("a", (2020, 2040));
    let certificate = folder.load("a.crt", "a.key").unwrap();
    assert_eq!(certificate.expires.to_string(), "2040-01-01T00:00:00Z");
    let at = |time: &str| {
        let checked = certificate.check_time(time.parse().unwrap(), &folder.path("a.crt"));
        checked.map_or_else(|problem| folder.without_path(&problem), |()| "good".to_owned())
    };
    assert_eq!(at("2039-12-31T00:00:00Z"), "good");
    assert_eq!(
        at("2040-01-02T00:00:00Z"),
        "the certificate in a.crt expired at 2040-01-01T00:00:00Z"
    );
    assert_eq!(
        at("2019-12-31T00:00:00Z"),
        "the certificate in a.crt is not valid before 2020-01-01T00:00:00Z"
    );
}

#[test]
fn unusable_certificate_files_are_explained() {
    let folder = Folder::new();
    folder.write("a", (2020, 2040));
    folder.write("b", (2020, 2040));
    fs::write(folder.path("empty"), "").unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    fs::write(folder.path("broken.crt"), broken).unwrap();
    let problems = [
        ("missing.crt", "a.key"),
        ("a.crt", "missing.key"),
        ("empty", "a.key"),
        ("a.key", "a.key"),
        ("a.crt", "empty"),
        ("a.crt", "a.crt"),
        ("a.crt", "b.key"),
        ("broken.crt", "a.key"),
    ];
    let problems = problems.map(|(certificate, key)| folder.load(certificate, key).err().unwrap());
    insta::assert_snapshot!(problems.join("\n"), @r#"
    cannot read missing.crt: No such file or directory (os error 2)
    cannot read missing.key: No such file or directory (os error 2)
    empty contains no certificate in PEM format; expected "-----BEGIN CERTIFICATE-----"
    a.key contains no certificate in PEM format; expected "-----BEGIN CERTIFICATE-----"
    empty contains no private key in PEM format: no items found
    a.crt contains no private key in PEM format: no items found
    the private key in b.key does not belong to the first certificate in a.crt
    the certificate in broken.crt cannot be used: invalid peer certificate: BadEncoding
    "#);
}

#[test]
fn generated_certificate_outlives_the_process() {
    let certificate = Certificate::self_signed(vec!["localhost".to_owned(), "::1".to_owned()]).unwrap();
    assert!(
        certificate.expires > "2200-01-01T00:00:00Z".parse().unwrap(),
        "{}",
        certificate.expires
    );
    assert!(certificate.check_time(Timestamp::now(), Path::new("")).is_ok());
}
