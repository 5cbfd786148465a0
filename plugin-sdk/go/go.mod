module informant.example/plugin-sdk/go

go 1.26
