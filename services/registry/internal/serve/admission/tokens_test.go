package admission

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

// unused is a signer that nothing is signed with.
type unused struct{ signing.Signer }

func TestAWrongTokenIsNotCreated(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	tokens := NewTokens(New(w.Records, Config{Signer: unused{}}, zerolog.Nop()), zerolog.Nop())
	type ask = *registryv1.CreateTokenRequest
	for name, c := range map[string]struct {
		change func(ask)
		code   string
	}{
		"as it should be": {func(ask) {}, ""},
		"no uses":         {func(q ask) { q.Uses = 0 }, code.BadUses},
		"too many uses":   {func(q ask) { q.Uses = 100_001 }, code.BadUses},
		"no name":         {func(q ask) { q.Name = "" }, code.BadName},
		"a dot":           {func(q ask) { q.Name = "a.b" }, code.BadName},
		"an id":           {func(q ask) { q.Name = "01a1fc88-01b0-78a7-8be5-02349c182293" }, code.BadName},
		"a label":         {func(q ask) { q.Labels = map[string]string{"a b": "1"} }, code.BadLabel},
		"a range":         {func(q ask) { q.FromAddresses = []string{"10.0.0.1/8"} }, code.BadAddressRange},
		"no range":        {func(q ask) { q.FromAddresses = []string{"rack-a"} }, code.BadAddressRange},
		"too long":        {func(q ask) { q.ValidFor = durationpb.New(31 * 24 * time.Hour) }, code.BadDuration},
	} {
		q := &registryv1.CreateTokenRequest{Name: "a", Uses: 1, FromAddresses: []string{"10.0.0.0/8"}}
		c.change(q)
		if _, err := tokens.created(q); recordstest.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}
