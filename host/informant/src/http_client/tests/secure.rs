//! TLS and proxies, over real sockets.

use informant_apiserver::{ApiServer, Identity, Options};
use informant_config::{FilePosition, Located};

use super::*;

/// A server with a certificate for these names. Returns its address, and the file of its authority.
async fn tls_server(names: &[&str]) -> (SocketAddr, tempfile::NamedTempFile) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let identity = Identity::generate(&names).unwrap();
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), identity.authority_pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = ApiServer::new(Options::default());
    tokio::spawn(async move { server.serve_tls(listener, &identity, std::future::pending()).await });
    (address, authority)
}

/// A path as if it were in line 1 of the configuration.
fn at_start(path: &Path) -> Located<PathBuf> {
    Located {
        value: path.to_owned(),
        position: FilePosition { line: 1, column: 1 },
    }
}

#[tokio::test]
async fn a_certificate_must_be_valid_for_the_host() {
    let (address, authority) = tls_server(&["127.0.0.1"]).await;
    let (other, other_authority) = tls_server(&["example.com"]).await;
    let with = |file: Option<&tempfile::NamedTempFile>| {
        let section = HttpSection {
            ca_file: file.map(|file| at_start(file.path())),
            ..HttpSection::default()
        };
        sender(section, Names::default())
    };
    let url = |address: SocketAddr| call(&format!("https://{address}/version"));
    assert_eq!(get(&with(Some(&authority)), url(address)).await.unwrap().0, 200);
    assert_eq!(code(&with(None), url(address)).await, HttpErrorCode::Certificate);
    assert_eq!(
        code(&with(Some(&other_authority)), url(address)).await,
        HttpErrorCode::Certificate
    );
    assert_eq!(
        code(&with(Some(&other_authority)), url(other)).await,
        HttpErrorCode::Certificate
    );
    let plain = RawServer::start(OK, true).await;
    assert_eq!(
        code(&with(Some(&authority)), url(plain.address)).await,
        HttpErrorCode::Tls
    );
}

#[tokio::test]
async fn a_changed_ca_file_is_used_at_once() {
    let (old, old_authority) = tls_server(&["127.0.0.1"]).await;
    let (new, new_authority) = tls_server(&["127.0.0.1"]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let section = HttpSection {
        ca_file: Some(at_start(file.path())),
        ..HttpSection::default()
    };
    let sender = sender(section, Names::default());
    let url = |address: SocketAddr| call(&format!("https://{address}/version"));
    for (authority, trusted, other) in [(&old_authority, old, new), (&new_authority, new, old)] {
        std::fs::copy(authority.path(), file.path()).unwrap();
        assert_eq!(get(&sender, url(trusted)).await.unwrap().0, 200);
        assert_eq!(code(&sender, url(other)).await, HttpErrorCode::Certificate);
    }
    for content in ["", "no certificate"] {
        std::fs::write(file.path(), content).unwrap();
        let error = get(&sender, url(new)).await.unwrap_err();
        assert_eq!(error.code, HttpErrorCode::Tls);
        assert!(error.message.contains("no certificate in PEM"), "{error}");
    }
    std::fs::copy(old_authority.path(), file.path()).unwrap();
    assert_eq!(get(&sender, url(old)).await.unwrap().0, 200);
}

#[tokio::test]
async fn handshakes_that_break_off_are_errors() {
    // A record of another protocol version, an alert, and nothing.
    for answer in [&b"\x16\x03\x00\x00\x02ab"[..], b"\x15\x03\x03\x00\x02\x02\x28", b""] {
        let server = RawServer::start(answer, true).await;
        let sender = sender(HttpSection::default(), Names::default());
        let url = format!("https://{}/", server.address);
        assert_eq!(code(&sender, call(&url)).await, HttpErrorCode::Tls, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_given_up() {
    let server = RawServer::start("", false).await;
    let sender = sender(HttpSection::default(), Names::default());
    let url = format!("https://{}/", server.address);
    let began = tokio::time::Instant::now();
    assert_eq!(code(&sender, call(&url)).await, HttpErrorCode::ConnectTimeout);
    assert_eq!(began.elapsed().as_secs(), HTTP_CONNECT_MAX.as_secs());
}

#[tokio::test]
async fn a_proxy_gets_whole_urls_and_opens_tunnels() {
    let proxy = RawServer::start(OK, true).await;
    let section = HttpSection {
        proxy: Some(format!("http://user:secret@{}", proxy.address)),
        no_proxy: vec!["127.0.0.1".to_owned()],
        ..HttpSection::default()
    };
    let sender = sender(section, Names::default());
    // The name is not looked up here.
    assert_eq!(
        get(&sender, call("http://a.example.com:8080/b?c")).await.unwrap().0,
        200
    );
    // What is not HTTP over TLS ends the tunnel.
    assert_eq!(code(&sender, call("https://a.example.com/")).await, HttpErrorCode::Tls);
    let direct = RawServer::start(OK, true).await;
    get(&sender, call(&direct.url("/"))).await.unwrap();
    let authorization = "proxy-authorization: Basic dXNlcjpzZWNyZXQ=";
    let seen = proxy.seen();
    assert!(
        seen[0].starts_with("GET http://a.example.com:8080/b?c HTTP/1.1\n"),
        "{seen:?}"
    );
    assert!(seen[1].starts_with("CONNECT a.example.com:443 HTTP/1.1\n"), "{seen:?}");
    assert!(seen.iter().all(|request| request.contains(authorization)), "{seen:?}");
    assert_eq!(direct.seen().len(), 1);
    assert!(!direct.seen()[0].contains("proxy-authorization"));
}

/// A proxy that opens every tunnel to `target`. Returns its address, and all that went through from the client.
async fn tunnel_to(target: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let noted = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            noted.lock().unwrap().extend(head);
            socket.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
            let server = TcpStream::connect(target).await.unwrap();
            let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                (socket.into_split(), server.into_split());
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            let mut bytes = [0; 4096];
            // Until the client ends it.
            while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
                noted.lock().unwrap().extend(&bytes[..read]);
                to_server.write_all(&bytes[..read]).await.unwrap();
            }
        }
    });
    (address, seen)
}

#[tokio::test]
async fn inside_a_tunnel_the_host_is_checked_and_nothing_shown() {
    let (target, authority) = tls_server(&["a.example.com"]).await;
    let (proxy, seen) = tunnel_to(target).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "Bearer hidden").unwrap();
    let through = |ca_file: Option<PathBuf>| {
        let section = HttpSection {
            ca_file: ca_file.as_deref().map(at_start),
            proxy: Some(format!("http://user:secret@{proxy}")),
            ..HttpSection::default()
        };
        sender(section, Names::default())
    };
    let authorized = |url: &str| {
        let mut sent = call(url);
        sent.header_files = vec![(HeaderName::from_static("authorization"), token.clone())];
        sent
    };
    let trusting = through(Some(authority.path().to_owned()));
    assert_eq!(
        get(&trusting, authorized("https://a.example.com/version"))
            .await
            .unwrap()
            .0,
        200
    );
    let text = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
    assert!(text.starts_with("CONNECT a.example.com:443 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("proxy-authorization: Basic dXNlcjpzZWNyZXQ="), "{text}");
    assert!(!text.contains("hidden") && !text.contains("version"), "{text}");
    for (sender, url) in [
        (&trusting, "https://b.example.com/version"),
        (&through(None), "https://a.example.com/version"),
    ] {
        assert_eq!(code(sender, authorized(url)).await, HttpErrorCode::Certificate, "{url}");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_a_tunnel_is_an_error() {
    let proxy = RawServer::start(
        "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
        true,
    )
    .await;
    let section = HttpSection {
        proxy: Some(format!("http://{}", proxy.address)),
        ..HttpSection::default()
    };
    let sender = sender(section, Names::default());
    let error = get(&sender, call("https://a.example.com/")).await.unwrap_err();
    assert_eq!(error.code, HttpErrorCode::Connect);
    assert!(error.message.contains("407"), "{error}");
}
