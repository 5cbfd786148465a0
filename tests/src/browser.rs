//! A browser for tests of the dashboard: Chromium without a window, led by its driver.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::process::Process;
use crate::{guests, wait};

/// The deadline for the driver to listen, and for what is waited for on a page.
const WITHIN: Duration = Duration::from_secs(30);

/// The height of the window in pixels.
const HEIGHT: u32 = 900;

/// Runs the rules of axe-core, and lists what they find.
const AXE: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations.map((violation) =>
        `${violation.id}: ${violation.nodes.map((node) => node.target).join(', ')}`)));";

/// Compares two pictures by the mean colors of 48 × 30 areas. A color differs if a part of it does by more than 20 of
/// 255: more than by the edges of letters in another font.
const DIFFERENCE: &str = "const [one, other, done] = arguments;
    const load = async (base64) => {
        const image = new Image();
        image.src = `data:image/png;base64,${base64}`;
        await image.decode();
        return image;
    };
    const colors = (image) => {
        const [width, height] = [48, 30];
        const canvas = new OffscreenCanvas(width, height).getContext('2d');
        canvas.imageSmoothingQuality = 'high';
        canvas.drawImage(image, 0, 0, width, height);
        return canvas.getImageData(0, 0, width, height).data;
    };
    const differ = (a, b, at) => [0, 1, 2].some((part) => Math.abs(a[at + part] - b[at + part]) > 20);
    (async () => {
        const now = await load(other);
        const there = await load(one).catch(() => null);
        if (there?.width !== now.width || there.height !== now.height) return 1;
        const [a, b] = [colors(there), colors(now)];
        const areas = a.length / 4;
        return Array.from({ length: areas }).filter((_, area) => differ(a, b, 4 * area)).length / areas;
    })().then(done, (error) => done(`${error}`));";

/// Rounds the colors of a picture, and writes it as WebP without loss: quality 1.
const COMPRESS: &str = "const [picture, done] = arguments;
    const compress = async () => {
        const image = new Image();
        image.src = `data:image/png;base64,${picture}`;
        await image.decode();
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext('2d');
        context.drawImage(image, 0, 0);
        const pixels = context.getImageData(0, 0, image.width, image.height);
        pixels.data.forEach((part, at) => { pixels.data[at] = Math.round(part / 8) * 8; });
        context.putImageData(pixels, 0, 0);
        return canvas.toDataURL('image/webp', 1);
    };
    compress().then(done, (error) => done(`${error}`));";

/// A window. Its browser ends with it.
pub struct Browser {
    client: Client,
    _driver: Process,
    /// The source of axe-core.
    axe: String,
}

/// Whether there is one to test with. In CI there always is.
pub fn is_there() -> bool {
    std::env::var_os("INFORMANT_TESTS_WITHOUT_BROWSER").is_none()
}

/// A command of the protocol of Chromium's developer tools.
#[derive(Debug)]
struct DevTools {
    command: &'static str,
    parameters: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        let body = json!({"cmd": self.command, "params": self.parameters});
        (http::Method::POST, Some(body.to_string()))
    }
}

impl Browser {
    /// Starts one with an empty profile.
    ///
    /// # Errors
    /// If the driver, the browser or axe-core is missing.
    pub async fn start() -> Result<Self> {
        Self::start_under(&[]).await
    }

    /// As [`start`](Self::start), by another program: see [`Process::start_under`].
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_under(under: &[String]) -> Result<Self> {
        let axe = guests::target_folder().join("tools/dashboard/node_modules/axe-core/axe.min.js");
        let axe = std::fs::read_to_string(&axe)
            .with_context(|| format!("{} is missing: run `cargo xtask build`", axe.display()))?;
        let mut driver = Process::start_under(under, Path::new("chromedriver"), ["--port=0"])
            .context("chromedriver does not start: install Debian's chromium-driver")?;
        let port = driver
            .wait_for_line("the driver's port", WITHIN, |line| {
                let port = line.split_once("started successfully on port ")?.1;
                port.trim_end_matches('.').parse::<u16>().ok()
            })
            .await?;
        let mut capabilities = Capabilities::new();
        // Tests may run as root in a container, where Chromium has no sandbox of its own.
        let arguments = json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]});
        capabilities.insert("goog:chromeOptions".to_owned(), arguments);
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .context("Chromium does not start")?;
        Ok(Self {
            client,
            _driver: driver,
            axe,
        })
    }

    /// Opens an address, also if it differs from the current one in what follows `#` only.
    ///
    /// # Errors
    /// If the browser cannot open it.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.client.goto("about:blank").await?;
        Ok(self.client.goto(url).await?)
    }

    /// The colors and the width of the window in pixels.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn appear(&self, is_dark: bool, width: u32) -> Result<()> {
        self.appear_in(is_dark, width, HEIGHT).await
    }

    /// As [`appear`](Self::appear), with a height.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn appear_in(&self, is_dark: bool, width: u32, height: u32) -> Result<()> {
        let scheme = if is_dark { "dark" } else { "light" };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        for (command, parameters) in [
            ("Emulation.setDeviceMetricsOverride", size),
            ("Emulation.setEmulatedMedia", features),
        ] {
            self.client.issue_cmd(DevTools { command, parameters }).await?;
        }
        Ok(())
    }

    /// Runs a script in each page that is opened from now on, before the page's own.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn before_each_page(&self, script: &str) -> Result<()> {
        let command = "Page.addScriptToEvaluateOnNewDocument";
        let parameters = json!({"source": script});
        self.client.issue_cmd(DevTools { command, parameters }).await?;
        Ok(())
    }

    /// Hides the bars with which a page scrolls.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn hide_scrollbars(&self) -> Result<()> {
        let command = "Emulation.setScrollbarsHidden";
        let parameters = json!({"hidden": true});
        self.client.issue_cmd(DevTools { command, parameters }).await?;
        Ok(())
    }

    /// A picture as WebP, whose colors are rounded by at most 4 of 255. That takes a third of the bytes.
    ///
    /// # Errors
    /// If it is no picture.
    pub async fn compressed(&self, picture: &[u8]) -> Result<Vec<u8>> {
        let picture = vec![json!(BASE64_STANDARD.encode(picture))];
        self.client.goto("about:blank").await?;
        let compressed = self.client.execute_async(COMPRESS, picture).await?;
        let url = compressed.as_str().unwrap_or_default();
        let base64 = url
            .strip_prefix("data:image/webp;base64,")
            .with_context(|| format!("compressing a picture: {url}"))?;
        Ok(BASE64_STANDARD.decode(base64)?)
    }

    /// The share of the areas of two pictures whose colors differ. Pictures of different sizes differ everywhere.
    ///
    /// # Errors
    /// If the second one is no picture.
    pub async fn difference(&self, one: &[u8], other: &[u8]) -> Result<f64> {
        let pictures = [one, other].map(|picture| json!(BASE64_STANDARD.encode(picture)));
        self.client.goto("about:blank").await?;
        let difference = self.client.execute_async(DIFFERENCE, pictures.to_vec()).await?;
        difference
            .as_f64()
            .with_context(|| format!("comparing pictures: {difference}"))
    }

    /// The text that a person sees.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn text(&self) -> Result<String> {
        let text = self.run("return document.body.innerText").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the page shows all of `texts`.
    ///
    /// # Errors
    /// If it does not in time; the error contains what it shows.
    pub async fn wait_for(&self, texts: &[&str]) -> Result<()> {
        self.wait_until(&format!("the page to show {texts:?}"), |shown| {
            texts.iter().all(|text| shown.contains(text))
        })
        .await
    }

    /// Waits until what the page shows is as expected.
    ///
    /// # Errors
    /// If it is not in time; the error contains what it shows.
    pub async fn wait_until(&self, what: &str, is_expected: impl Fn(&str) -> bool) -> Result<()> {
        wait::until(what, WITHIN, async || {
            let shown = self.text().await.map_err(|error| format!("{error:#}"))?;
            if is_expected(&shown) { Ok(()) } else { Err(shown) }
        })
        .await
    }

    /// Presses the button with this text or label, once it is there.
    ///
    /// # Errors
    /// If it does not appear in time.
    pub async fn press(&self, label: &str) -> Result<()> {
        let path = format!("//button[(normalize-space(.)='{label}' or @aria-label='{label}') and not(@disabled)]");
        let button = self.client.wait().at_most(WITHIN).for_element(Locator::XPath(&path));
        let button = button.await.with_context(|| format!("the button {label}"))?;
        Ok(button.click().await?)
    }

    /// Runs a script in the page, and returns what it returns.
    ///
    /// # Errors
    /// If the script fails.
    pub async fn run(&self, script: &str) -> Result<Value> {
        Ok(self.client.execute(script, Vec::new()).await?)
    }

    /// Checks that the rules of axe-core find nothing.
    ///
    /// # Errors
    /// With what they find.
    pub async fn ensure_accessible(&self) -> Result<()> {
        self.run(&self.axe).await?;
        let found = self.client.execute_async(AXE, Vec::new()).await?;
        ensure!(found == json!([]), "axe-core finds {found}");
        Ok(())
    }

    /// Writes a picture of the window to `target/screenshots/NAME.png`, from which the documentation takes its own.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn picture(&self, name: &str) -> Result<PathBuf> {
        let folder = guests::target_folder().join("screenshots");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, self.client.screenshot().await?)?;
        Ok(file)
    }

    /// Ends the browser.
    ///
    /// # Errors
    /// If the driver fails.
    pub async fn close(self) -> Result<()> {
        Ok(self.client.close().await?)
    }
}
