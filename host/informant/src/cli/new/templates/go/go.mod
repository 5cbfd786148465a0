module {{name}}

go 1.26

require informant.example/plugin-sdk/go v0.0.0

// The SDK is not published yet.
replace informant.example/plugin-sdk/go => {{sdk}}
