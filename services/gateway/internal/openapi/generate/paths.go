package main

import (
	"slices"

	"github.com/garrison-fleet/garrison/services/gateway/internal/openapi/describe"
)

// paths describes what is served beside the methods.
var paths = describe.Object{
	"/events":          describe.Object{"get": events},
	"/images/{digest}": describe.Object{"get": download, "put": upload},
}

var events = describe.Object{
	"operationId": "events", "tags": []any{"Events"},
	"description": "The facts of the ledger as server-sent events, and then new ones as they are recorded. The id of " +
		"an event is the place behind it: a client that sends it as Last-Event-ID continues without gap or double. " +
		"Events are named fact (its data is a garrison.registry.v1.StoredFact), beat (a sign of life, every 10 s in " +
		"which nothing else is sent), reset (the ledger does not continue: discard what was derived from it, and " +
		"begin again) and error; after the last two the stream ends.",
	"parameters": slices.Concat(
		query("after", "The place to begin behind, when there is no Last-Event-ID."),
		query("new", "Any text: begin with the next fact."), query("noun", "Only facts about this noun, such as task."),
		query("key", "Only facts whose key is this, or begins with it and a dot; with noun."),
		[]any{describe.Object{
			"name": "Last-Event-ID", "in": "header", "schema": describe.Object{"type": "string"},
		}},
	),
	"responses": describe.Object{
		"200": describe.Object{
			"description": "The stream.",
			"content": describe.Object{"text/event-stream": describe.Object{
				"schema": describe.Object{"type": "string"},
			}},
		},
		"default": refused,
	},
}

var refused = describe.Object{
	"description": "The request was refused or failed.",
	"content": describe.Object{"application/problem+json": describe.Object{
		"schema": describe.Object{"type": "object"},
	}},
}

var digest = []any{describe.Object{
	"name": "digest", "in": "path", "required": true, "description": "The sha256 of an archive in hexadecimal: " +
		"blob.digest of the manifest, which is in base64 there.",
	"schema": describe.Object{"type": "string", "pattern": "^[0-9a-f]{64}$"},
}}

var archive = describe.Object{"application/zstd": describe.Object{"schema": describe.Object{
	"type": "string", "format": "binary",
}}}

var download = describe.Object{
	"operationId": "downloadImage", "tags": []any{"Images"}, "parameters": digest,
	"description": "The archive of an image: tar in zstd. HEAD, Range, If-Range and If-None-Match work. " +
		"The ETag is the digest.",
	"responses": describe.Object{
		"200": describe.Object{"description": "The archive.", "content": archive},
		"206": describe.Object{"description": "The range.", "content": archive},
		"304": describe.Object{"description": "The caller has it."}, "default": refused,
	},
}

var upload = describe.Object{
	"operationId": "uploadImage", "tags": []any{"Images"}, "parameters": digest,
	"description": "Stores the archive of an image that CreateImage made known; ActivateImage then lets it be " +
		"installed. An upload that was cut is repeated as a whole.",
	"requestBody": describe.Object{"required": true, "content": archive},
	"responses": describe.Object{
		"201": describe.Object{"description": "The archive is stored."},
		"204": describe.Object{"description": "The catalog had the whole archive."}, "default": refused,
	},
}

func query(name, what string) []any {
	return []any{describe.Object{
		"name": name, "in": "query", "description": what, "schema": describe.Object{"type": "string"},
	}}
}
