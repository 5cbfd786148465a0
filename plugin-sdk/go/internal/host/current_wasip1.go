package host

// Current is Informant.
var Current Host = component{}
