module informant.example/plugins/website

go 1.26

require informant.example/plugin-sdk/go v0.0.0

replace informant.example/plugin-sdk/go => ../../plugin-sdk/go
