package display

import (
	"github.com/garrison-fleet/garrison/pkg/listing"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Waiting is a machine that asks to join without a token.
type Waiting = *registryv1.Waiting

// Lobby lists machines that ask to join without a token.
var Lobby = listing.Listing[Waiting]{
	Name: Waiting.GetFingerprint,
	Columns: []listing.Column[Waiting]{
		listing.Col("FINGERPRINT", Waiting.GetFingerprint),
		listing.Col("HOSTNAME", func(w Waiting) string { return w.GetSysinfo().GetHostname() }),
		listing.Col("ADDRESS", Waiting.GetAddress),
		listing.Col("PLATFORM", func(w Waiting) string { return Platform(w.GetSysinfo().GetPlatform()) }),
		listing.Col("SINCE", func(w Waiting) string { return listing.Stamp(w.GetFirstAt()) }),
		listing.Wide("HEARD", func(w Waiting) string { return listing.Stamp(w.GetLastAt()) }),
		listing.Wide("MEMORY", func(w Waiting) string { return listing.Size(w.GetSysinfo().GetMemoryBytes()) }),
		listing.Wide("EXECUTOR", func(w Waiting) string { return w.GetSysinfo().GetExecutorVersion() }),
		listing.Wide("KEY", Waiting.GetPublicKey),
	},
}
