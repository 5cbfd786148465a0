//! Test guest: several roles in one component. Logs one line for each call, with the role of its instance and the
//! number of calls to it, so that a test sees that handler and index functions share no memory. Indexes objects by
//! name.

use informant_plugin_sdk::Role;
use informant_plugin_sdk::prelude::*;
use serde_json::json;

struct Both {
    role: Role,
    calls: u32,
}

impl Both {
    fn record(&mut self, call: &str) {
        self.calls += 1;
        info!(
            "{}",
            json!({ "guest": "both", "role": self.role.as_str(), "calls": self.calls, "call": call })
        );
    }
}

impl Plugin for Both {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .events(Events::all().metadata())
            .index("name")
            .indexed(Objects::of("*", "*").metadata()))
    }

    fn init(init: Init) -> Result<Self> {
        let mut both = Self {
            role: init.role,
            calls: 0,
        };
        both.record("init");
        Ok(both)
    }
}

impl EventHandler<Raw> for Both {
    fn on_add(&mut self, _: &Event, _: Raw) -> Result<Action> {
        self.record("on-add");
        Ok(Action::done())
    }

    fn on_update(&mut self, _: &Event, _: Option<Raw>, _: Raw) -> Result<Action> {
        self.record("on-update");
        Ok(Action::done())
    }

    fn on_delete(&mut self, _: &Event, _: Deleted<Raw>) -> Result<Action> {
        self.record("on-delete");
        Ok(Action::done())
    }
}

impl SyncHandler for Both {
    fn on_synced(&mut self, _: &Synced) -> Result {
        self.record("on-synced");
        Ok(())
    }
}

impl IndexFuncs for Both {
    type Object = Raw;

    fn index(&mut self, of: &ObjectRef, _: Raw) -> Result<IndexValues> {
        self.record("index");
        Ok(IndexValues::new().with("name", [of.name.as_str()]))
    }
}

export!(Both: events, sync, index);
