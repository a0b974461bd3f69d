package decision

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/seal"

	"github.com/garrison-fleet/garrison/services/image-catalog/internal/view"
)

// The bounds of sources.
const (
	maxSources    = 100
	maxSourceKeys = 8
	maxAhead      = 10 * time.Minute // of the clock of who publishes
)

// AddSource decides that images may be imported from a valid place, or that a source has another place or other keys.
func AddSource(v *view.Sources, name, location string, keys []string) ([]ledger.Draft, error) {
	if err := ident.CheckName("source", name); err != nil {
		return nil, refuse(fault.Invalid, code.BadName, "%v", err)
	}
	if n := len(keys); n == 0 || n > maxSourceKeys {
		return nil, refuse(fault.Invalid, code.BadSource, "source %q has %d keys, want 1 to %d: only an index that "+
			"one of them signed is taken", name, n, maxSourceKeys)
	}
	for _, key := range keys {
		if err := seal.CheckKey(key); err != nil {
			return nil, err
		}
	}
	have, err := v.Find(name)
	switch {
	case err != nil && v.Len() >= maxSources:
		return nil, refuse(fault.Conflict, code.BadSource, "there are %d sources already, the most there can be",
			maxSources)
	case err == nil && have.Location == location && slices.Equal(have.Keys, keys):
		return nil, nil
	}
	return onSource(v, name, &sourcev1.Added{Location: location, Keys: keys}), nil
}

// RecordSync decides that a person imported what a source has. It refuses an index that is older than one that was
// taken: an attacker who controls the source could otherwise bring old images back. It refuses one of the future, too,
// which would close the source until then.
func RecordSync(v *view.Sources, name string, done *sourcev1.Synced, now time.Time) ([]ledger.Draft, error) {
	have, err := v.Find(name)
	if err != nil {
		return nil, err
	}
	if !done.GetPublishedAt().IsValid() {
		return nil, refuse(fault.Invalid, code.Malformed, "the index has no time of its publication")
	}
	if at := done.PublishedAt.AsTime(); at.After(now.Add(maxAhead)) {
		return nil, refuse(fault.Invalid, code.BadSource, "the index of source %q was published at %s, in the future",
			name, at.Format(time.RFC3339))
	}
	if last := have.Last.GetPublishedAt(); last != nil && done.PublishedAt.AsTime().Before(last.AsTime()) {
		return nil, refuse(fault.Conflict, code.BadSource,
			"the index of source %q was published at %s, before the one that was taken last, of %s", name,
			done.PublishedAt.AsTime().Format(time.RFC3339), last.AsTime().Format(time.RFC3339))
	}
	return onSource(v, name, done), nil
}

// RemoveSource decides that a source is removed. The images that came from it stay.
func RemoveSource(v *view.Sources, name string) ([]ledger.Draft, error) {
	if _, err := v.Find(name); err != nil {
		return nil, err
	}
	return onSource(v, name, &sourcev1.Removed{}), nil
}

// onSource drafts a fact about one source, guarded by its key.
func onSource(v *view.Sources, name string, body proto.Message) []ledger.Draft {
	return onKey(ledger.Source, name, v.Sequence(name), []proto.Message{body})
}
