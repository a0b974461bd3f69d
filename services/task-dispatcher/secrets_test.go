package dispatcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

func TestOnlyTheStoredDocumentHasASecretInClear(t *testing.T) {
	t.Parallel()
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  *secret.Key
		want map[string]string
	}{
		"with the key": {key, map[string]string{"password": "hunter2"}}, "without a key": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			server := serverID(1)
			w.enrol(server)
			w.agent("web", 0)
			all := map[string]string{"level": "info", "password": key.Seal("password", "hunter2")}
			w.say(ledger.Instance, ledger.Key(server, "web"), &instancev1.Wanted{
				InstanceId: instanceID(server, "web"), Generation: 1, Image: w.image("web", "1.0.0"),
				IntentId:      serverID(9),
				Configuration: &instancev1.Configuration{Metadata: all, Digest: metadata.Digest(all)},
			})
			w.start(Config{Secrets: c.key})
			var stored *desiredv1.Document
			polltest.Eventually(t, "the document has the entry", func() bool {
				stored = w.document(server)
				return len(stored.GetEntries()) == 1
			})
			e := stored.GetEntries()[0]
			if d := cmp.Diff(c.want, e.GetSecrets()); d != "" {
				t.Errorf("secrets in clear (-want +have):\n%s", d)
			}
			if d := cmp.Diff(all, e.GetMetadata()); d != "" {
				t.Errorf("metadata (-want +have):\n%s", d)
			}
			answer, err := call[*dispatcherv1.GetDocumentResponse](w, "GetDocument",
				&dispatcherv1.GetDocumentRequest{ServerId: server})
			entries := answer.GetDocument().GetEntries()
			if err != nil || len(entries) != 1 || strings.Contains(answer.String(), "hunter2") {
				t.Errorf("the answer of GetDocument is %v (%v)", answer, err)
			}
		})
	}
}
