package apm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha1" // the digest that the manifest has
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"

	"github.com/garrison-fleet/garrison/services/operator/internal/apm"
)

const (
	uuid    = "c0000000-0000-4000-8000-000000000001"
	version = "0.0.3vrelease-20130401-g0bd6d2c"
	service = `<?xml version="1.0"?>
<!DOCTYPE service_bundle SYSTEM "/usr/share/lib/xml/dtd/service_bundle.dtd.1">
<service_bundle type="manifest" name="net-agent"><service name="smartdc/agent/net-agent" type="service" version="1">
 <dependency name="network" grouping="require_all" restart_on="error" type="service"/>
 <exec_method type="method" name="start" timeout_seconds="60"
   exec="@@PREFIX@@/net-agent/node/bin/node bin/net-agent.js -p 80 &amp;">
  <method_context><method_environment><envvar name="LOG" value="info"/>
   <envvar name="HOME_DIR" value="@@PREFIX@@/x"/></method_environment></method_context></exec_method>
 <exec_method type="method" name="stop" exec=":kill" timeout_seconds="20"/>
 <exec_method type="method" name="refresh" exec=":true" timeout_seconds="3"/>
</service></service_bundle>`
)

// entry is an entry of an archive.
type entry struct {
	name, text string
	mode       int64
	kind       byte
}

// agent is an agent as its build makes it.
func agent() []entry {
	return []entry{
		{"net-agent/", "", 0o755, tar.TypeDir},
		{"net-agent/image_uuid", uuid + "\n", 0o644, tar.TypeReg},
		{"net-agent/package.json", `{"name": "net-agent", "version": "1.4.0", "bin": {"netctl": "bin/netctl"},
			"scripts": {"postinstall": "./npm/postinstall.sh", "test": "nodeunit"}, "sdcDependencies": ["cn-agent"]}`,
			0o644, tar.TypeReg},
		{"net-agent/smf/manifests/net-agent.xml.in", service, 0o644, tar.TypeReg},
		{"net-agent/node/bin/node", "#!/bin/sh\n", 0o755, tar.TypeReg},
		{"net-agent/bin/net-agent.js", "", 0o644, tar.TypeReg},
		{"net-agent/lib/native.node", "\x7fELF\x02\x01\x01\x06rest", 0o755, tar.TypeReg},
		{"net-agent/sapi_manifests/net-agent/template", "{{{x}}}", 0o644, tar.TypeReg},
		{"net-agent/current", "bin", 0o777, tar.TypeSymlink},
	}
}

// archive writes an archive and its manifest, and returns their paths. more are further fields of the manifest.
func archive(t *testing.T, more string, entries ...entry) apm.Options {
	t.Helper()
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Typeflag: e.kind}
		if e.kind == tar.TypeReg {
			h.Size = int64(len(e.text))
		} else {
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(data.Bytes())
	manifest := fmt.Sprintf(`{"v": 2, "uuid": %q, "name": "net-agent", "version": %q, "type": "other", "os": "other",
		"description": "networks", "tags": {"smartdc_service": true, "buildstamp": "b-1"},
		"files": [{"sha1": %q, "size": "%d", "compression": "gzip"}]%s}`, uuid, version, hex.EncodeToString(sum[:]),
		data.Len(), more)
	dir := t.TempDir()
	o := apm.Options{Manifest: filepath.Join(dir, "m.json"), Archive: filepath.Join(dir, "agent.tgz")}
	o.Build = image.BuildOptions{Out: filepath.Join(dir, "out.gimg"), OS: "linux", Arch: "amd64"}
	for name, text := range map[string]string{o.Manifest: manifest, o.Archive: data.String()} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// refused fails the test unless an agent is refused for a reason, and no image is left.
func refused(t *testing.T, o apm.Options, want string) {
	t.Helper()
	_, err := apm.Convert(t.Context(), o)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
	if _, err := os.Stat(o.Build.Out); err == nil {
		t.Errorf("%q: an image was written", want)
	}
}

func TestAnAgentOfTritonBecomesAnImageWithWhatItsServiceSays(t *testing.T) {
	o := archive(t, `, "requirements": {"min_platform": {"7.0": "20151126T062538Z"}}, "channels": ["dev"]`, agent()...)
	r, err := apm.Convert(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(o.Build.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	m := f.Manifest()
	if m.GetAgent() != "net-agent" || m.GetVersion() != version || m.GetKind() != agentv1.Kind_KIND_DAEMON ||
		m.GetDescription() != "networks" {
		t.Errorf("%v", m)
	}
	tags := map[string]string{"triton.uuid": uuid, "smartdc_service": "true", "buildstamp": "b-1"}
	if diff := cmp.Diff(tags, m.GetTags()); diff != "" {
		t.Error(diff)
	}
	run := m.GetRun()
	if run.GetCommand() != "node/bin/node" || run.GetStopTimeoutMs() != 20_000 {
		t.Errorf("%v", run)
	}
	if diff := cmp.Diff([]string{"${image}/bin/net-agent.js", "-p", "80"}, run.GetArgs()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"LOG": "info"}, run.GetEnv()); diff != "" {
		t.Error(diff)
	}
	var all []string
	for _, s := range r.Skipped {
		all = append(all, s.Name+": "+s.Reason)
	}
	got := strings.Join(all, "\n")
	for _, want := range []string{
		`environment HOME_DIR: its value "@@PREFIX@@/x"`, "script postinstall: ", "refresh method: ",
		"dependencies of the service: network", "health check: ", "sapi_manifests: 1 file", "bin: ",
		"sdcDependencies: ",
		"requirement min_platform: ", "channels: ", "programs: 1 file built for illumos, which do not run on Linux: " +
			"lib/native.node",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("what is left out lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "script test") || strings.Contains(got, "stop method") {
		t.Errorf("too much is left out:\n%s", got)
	}
}

func TestHowAnAgentIsRunCanBeSaid(t *testing.T) {
	noService := append([]entry{}, agent()[:3]...)
	noService = append(noService, agent()[4:]...)
	o := archive(t, "", noService...)
	r, err := apm.Convert(t.Context(), o)
	if err != nil || r.Image.GetKind() != agentv1.Kind_KIND_FILES || r.Image.GetRun() != nil {
		t.Errorf("without a service: %v, %v", r.Image, err)
	}
	o.Run = []string{"node/bin/node", "bin/net-agent.js"}
	r, err = apm.Convert(t.Context(), o)
	if err != nil || r.Image.GetKind() != agentv1.Kind_KIND_DAEMON || r.Image.GetRun().GetCommand() != "node/bin/node" {
		t.Errorf("with a program: %v, %v", r.Image, err)
	}
	o = archive(t, "", noService...)
	o.Kind = agentv1.Kind_KIND_DAEMON
	refused(t, o, "no service with a start method; --run PROGRAM")
	o.Kind, o.Run = agentv1.Kind_KIND_UNSPECIFIED, []string{"/usr/bin/node"}
	refused(t, o, "does not begin with a program of the agent")
	o.Run, o.Recipe = nil, filepath.Join(t.TempDir(), "recipe.yaml")
	recipe := "agent: net-agent\nversion: 1.0.0\nkind: daemon\nrun: {command: node/bin/node}\n"
	if err := os.WriteFile(o.Recipe, []byte(recipe), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err = apm.Convert(t.Context(), o); err != nil || r.Image.GetVersion() != version {
		t.Errorf("with a recipe: %v, %v", r.Image, err)
	}
}

func TestAnArchiveThatIsNotTheManifestsIsRefused(t *testing.T) {
	o := archive(t, "", agent()...)
	data, err := os.ReadFile(o.Archive)
	if err != nil {
		t.Fatal(err)
	}
	for want, changed := range map[string][]byte{
		"bytes; the manifest says": data[:len(data)-1],
		"has the SHA-1":            append(data[:len(data)-1:len(data)-1], data[len(data)-1]+1),
	} {
		if err := os.WriteFile(o.Archive, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, o, want)
	}
	other := agent()
	other[1].text = "c0000000-0000-4000-8000-000000000002"
	refused(t, archive(t, "", other...), "the manifest is of "+uuid)
	refused(t, archive(t, "", agent()[2:]...), "it has no net-agent/image_uuid")
	refused(t, archive(t, `, "type": "zone-dataset"`, agent()...), "of type zone-dataset")
	refused(t, archive(t, `, "origin": "x"`, agent()...), "incremental image")
	refused(t, archive(t, `, "uuid": "x"`, agent()...), "is no image manifest of IMGAPI")
}

// Without its size and digest in the manifest, an archive that is cut short is noticed when it is read.
func TestAnArchiveThatIsCutShortIsRefusedWithACode(t *testing.T) {
	o := archive(t, "", agent()...)
	manifest, err := os.ReadFile(o.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(manifest, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "files")
	if manifest, err = json.Marshal(fields); err == nil {
		err = os.WriteFile(o.Manifest, manifest, 0o644)
	}
	data, readErr := os.ReadFile(o.Archive)
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	for _, size := range []int{8, 40, len(data) / 2} {
		if err := os.WriteFile(o.Archive, data[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, o, "truncated, damaged or no archive")
	}
}

func TestAHostileArchiveWritesNothingOutside(t *testing.T) {
	for name, want := range map[string]string{
		"../evil": "does not stay within the image", "/etc/evil": "does not stay within the image",
		"other/file":           "has one directory",
		"net-agent/../../evil": "does not stay within the image",
	} {
		refused(t, archive(t, "", append(agent(), entry{name, "x", 0o644, tar.TypeReg})...), want)
	}
	device := entry{"net-agent/dev", "", 0o644, tar.TypeChar}
	refused(t, archive(t, "", append(agent(), device)...), "neither a file")
	out := t.TempDir()
	for _, hostile := range [][]entry{
		{{"net-agent/out", out, 0o777, tar.TypeSymlink}, {"net-agent/out/evil", "x", 0o644, tar.TypeReg}},
		{{"net-agent/up", "../../..", 0o777, tar.TypeSymlink}, {"net-agent/up/evil", "x", 0o644, tar.TypeReg}},
	} {
		if r, err := apm.Convert(t.Context(), archive(t, "", append(agent(), hostile...)...)); err == nil {
			t.Errorf("%v became %v", hostile, r.Image)
		}
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
}

func TestAConversionStopsWhenItsContextIsDone(t *testing.T) {
	o := archive(t, "", agent()...)
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := apm.Convert(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want %v", err, context.Canceled)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
