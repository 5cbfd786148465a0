// A module of its own, so that the SDK does not depend on a YAML package.
module informant.example/plugin-sdk/go/scribe

go 1.26

require (
	go.yaml.in/yaml/v3 v3.0.4
	informant.example/plugin-sdk/go v0.0.0
)

replace informant.example/plugin-sdk/go => ../
