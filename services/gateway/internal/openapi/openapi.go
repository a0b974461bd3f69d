// Package openapi serves the description of the HTTP API in OpenAPI 3.1, which make gen generates from the contract and
// its comments.
package openapi

import (
	_ "embed"
	"net/http"
)

// Document is the description, as JSON.
//
//go:embed openapi.json
var Document []byte

// Serve answers with the description.
func Serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(Document) // a client that is gone needs no answer
}
