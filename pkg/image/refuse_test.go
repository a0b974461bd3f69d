package image_test

import (
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// run is all that a directory needs.
var run = map[string]entry{"run": {text: "x", mode: 0o100}}

// refusal is a directory that is not built, with the code and what the words must name.
type refusal struct {
	recipe string
	files  map[string]entry
	code   string
	says   string
}

func refuseBuilds(t *testing.T, refusals map[string]refusal) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(c.files)
			if c.recipe != "" {
				files["garrison.yaml"] = entry{text: c.recipe}
			}
			out := t.TempDir()
			_, err := image.Build(image.BuildOptions{Dir: tree(t, files), Out: filepath.Join(out, "x.gimg")})
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%q does not name %q", err, c.says)
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Fatalf("left behind: %v", left)
			}
		})
	}
}

func daemon(run string) string {
	return "agent: a\nversion: 1.0.0\nkind: daemon\nrun:\n  command: run\n  " + run + "\n"
}

func TestBuildRefusesARecipe(t *testing.T) {
	refuseBuilds(t, map[string]refusal{
		"a missing recipe":               {"", run, image.CodeNoRecipe, "garrison.yaml"},
		"a recipe that is not YAML":      {"a: [", run, image.CodeBadRecipe, "garrison.yaml"},
		"a recipe that is a list":        {"- a", run, image.CodeBadRecipe, "map"},
		"a key given twice":              {"agent: a\nagent: b", run, image.CodeBadRecipe, "agent"},
		"an unknown key":                 {"colour: red", run, image.CodeUnknownKey, "colour"},
		"an unknown key in run":          {"run: {comand: x}", run, image.CodeUnknownKey, "run.comand"},
		"a key in other letters":         {"Agent: a", run, image.CodeUnknownKey, "Agent"},
		"a value of another type":        {"agent: [a]", run, image.CodeBadRecipe, "agent is of type list, want text"},
		"a version without quotes":       {"agent: a\nversion: 1.10", run, image.CodeBadRecipe, "version is of type number, want text, in quotes"},
		"a command with its arguments":   {"run: {command: [a, b]}", run, image.CodeBadRecipe, "run.command is of type list"},
		"an unknown kind":                {"agent: a\nversion: 1.0.0\nkind: service", run, image.CodeBadRecipe, "service"},
		"a bad agent name":               {"agent: A_b\nversion: 1.0.0\nkind: files", run, image.CodeBadAgentName, "A_b"},
		"no version":                     {"agent: a\nkind: files", run, image.CodeBadVersion, "semantic"},
		"a version with a v":             {"agent: a\nversion: v1.0.0\nkind: files", run, image.CodeBadVersion, "v1.0.0"},
		"a short version":                {"agent: a\nversion: \"1.0\"\nkind: files", run, image.CodeBadVersion, "1.0"},
		"an unknown platform":            {"agent: a\nversion: 1.0.0\nkind: files\nos: plan8", run, image.CodeBadPlatform, "plan8"},
		"an unknown takeover":            {daemon("takeover: steal"), run, image.CodeBadRecipe, "steal"},
		"a bad time":                     {daemon("stop_timeout: soon"), run, image.CodeBadRecipe, "soon"},
		"a time that is too long":        {daemon("ready: {soak: 48h}"), run, image.CodeBadRecipe, "48h"},
		"a bad executor version":         {"agent: a\nversion: 1.0.0\nkind: files\nexecutor_version: v2", run, image.CodeBadVersion, "executor_version"},
		"a conflict with itself":         {"agent: a\nversion: 1.0.0\nkind: files\nconflicts: [a]", run, image.CodeBadManifest, "itself"},
		"a conflict with a bad name":     {"agent: a\nversion: 1.0.0\nkind: files\nconflicts: [B_c]", run, image.CodeBadAgentName, "B_c"},
		"files with a command":           {"agent: a\nversion: 1.0.0\nkind: files\nrun: {command: run}", run, image.CodeBadManifest, "run.command"},
		"a description that is too long": {"agent: a\nversion: 1.0.0\nkind: files\ndescription: " + strings.Repeat("x", 2000), run, image.CodeBadManifest, "description"},
	})
}

func TestBuildRefusesSockets(t *testing.T) {
	refuseBuilds(t, map[string]refusal{
		"an unknown key in a socket":  {"run: {sockets: [{name: a, port: 1}]}", run, image.CodeUnknownKey, "run.sockets.port"},
		"a socket of files":           {"agent: a\nversion: 1.0.0\nkind: files\nrun: {sockets: [{name: a, listen: ':1'}]}", run, image.CodeBadManifest, "daemon"},
		"a socket without a name":     {daemon("sockets: [{listen: ':1'}]"), run, image.CodeBadManifest, "name"},
		"a socket's bad name":         {daemon("sockets: [{name: 'a:b', listen: ':1'}]"), run, image.CodeBadManifest, "a:b"},
		"two sockets of one name":     {daemon("sockets: [{name: a, listen: ':1'}, {name: a, listen: ':2'}]"), run, image.CodeBadManifest, "before"},
		"two sockets at one address":  {daemon("sockets: [{name: a, listen: ':1'}, {name: b, listen: ':1'}]"), run, image.CodeBadManifest, "before"},
		"a socket without a port":     {daemon("sockets: [{name: a, listen: 127.0.0.1}]"), run, image.CodeBadManifest, "127.0.0.1"},
		"a socket at any port":        {daemon("sockets: [{name: a, listen: '127.0.0.1:0'}]"), run, image.CodeBadManifest, ":0"},
		"a socket at a named host":    {daemon("sockets: [{name: a, listen: 'localhost:${label.port}'}]"), run, image.CodeBadManifest, "localhost"},
		"a socket's unknown variable": {daemon("sockets: [{name: a, listen: '${address}'}]"), run, image.CodeUnknownName, "${address}"},
	})
}

func TestBuildRefusesProbes(t *testing.T) {
	refuseBuilds(t, map[string]refusal{
		"an unknown key in ready":      {"run: {ready: {udp: x}}", run, image.CodeUnknownKey, "run.ready.udp"},
		"a probe without a command":    {daemon("ready: {exec: {args: [a]}}"), run, image.CodeBadManifest, "run.ready.exec.command"},
		"a probe outside":              {daemon("ready: {exec: {command: ../x}}"), run, image.CodeOutside, "../x"},
		"a probe that is not there":    {daemon("ready: {exec: {command: walk}}"), run, image.CodeNoCommand, "run.ready.exec.command"},
		"a probe's unknown variable":   {daemon("ready: {exec: {command: run, args: ['${port}']}}"), run, image.CodeUnknownName, "${port}"},
		"an unknown key in a probe":    {daemon("ready: {exec: {program: run}}"), run, image.CodeUnknownKey, "run.ready.exec.program"},
		"an exec probe beside another": {daemon("ready: {notify: true, exec: {command: run}}"), run, image.CodeBadRecipe, "2 probes"},
		"two probes":                   {daemon("ready: {notify: true, tcp: 'x:1'}"), run, image.CodeBadRecipe, "2 probes"},
	})
}

func TestBuildRefusesConfigurations(t *testing.T) {
	refuseBuilds(t, map[string]refusal{
		"an unknown key in a config":     {"run: {configs: [{template: a, file: b}]}", run, image.CodeUnknownKey, "run.configs.file"},
		"an unknown key in a rehearsal":  {"run: {rehearsal: {run: b}}", run, image.CodeUnknownKey, "run.rehearsal.run"},
		"an unknown reload":              {daemon("reload: kill"), run, image.CodeBadRecipe, "kill"},
		"a config without a path":        {daemon("configs: [{template: run}]"), run, image.CodeOutside, "path"},
		"a config outside":               {daemon("configs: [{template: run, path: ../x}]"), run, image.CodeOutside, "../x"},
		"a template outside":             {daemon("configs: [{template: /etc/passwd, path: x}]"), run, image.CodeOutside, "/etc/passwd"},
		"a template that is not there":   {daemon("configs: [{template: none, path: x}]"), run, image.CodeBadTemplate, "none"},
		"a template that is broken":      {daemon("configs: [{template: broken, path: x}]"), map[string]entry{"run": run["run"], "broken": {text: "{{if}}"}}, image.CodeBadTemplate, "broken:1"},
		"a config twice":                 {daemon("configs: [{template: run, path: x}, {template: run, path: ./x}]"), run, image.CodeBadManifest, "twice"},
		"a config in a config":           {daemon("configs: [{template: run, path: x}, {template: run, path: x/y}]"), run, image.CodeBadManifest, "which is a file"},
		"a config on a directory":        {daemon("configs: [{template: run, path: x/y}, {template: run, path: x}]"), run, image.CodeBadManifest, "directory"},
		"a mode that gives rights":       {daemon("configs: [{template: run, path: x, mode: 04755}]"), run, image.CodeBadManifest, "4755"},
		"a mode in tens":                 {daemon("configs: [{template: run, path: x, mode: 640}]"), run, image.CodeBadManifest, "1200"},
		"a mode that hides it":           {daemon("configs: [{template: run, path: x, mode: 0040}]"), run, image.CodeBadManifest, "owner"},
		"a rehearsal without a command":  {daemon("rehearsal: {args: [a]}"), run, image.CodeBadManifest, "run.rehearsal.command"},
		"a rehearsal that is not there":  {daemon("rehearsal: {command: walk}"), run, image.CodeNoCommand, "run.rehearsal.command"},
		"a name of metadata with a dash": {daemon("args: ['${metadata.log-level}']"), run, image.CodeUnknownName, "log-level"},
	})
}

func TestBuildRefusesFilesAndCommands(t *testing.T) {
	refuseBuilds(t, map[string]refusal{
		"a daemon without a command":    {"agent: a\nversion: 1.0.0\nkind: daemon", run, image.CodeBadManifest, "run.command"},
		"an absolute command":           {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: /bin/sh}", run, image.CodeOutside, "/bin/sh"},
		"a command outside":             {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: ../x}", run, image.CodeOutside, "../x"},
		"a command that is not there":   {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: walk}", run, image.CodeNoCommand, "walk"},
		"a command that is a directory": {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: d}", map[string]entry{"d/x": {}}, image.CodeNoCommand, "not a file"},
		"a command not executable":      {daemon("args: []"), map[string]entry{"run": {text: "x"}}, image.CodeNoCommand, "executable"},
		"an unknown variable":           {daemon("args: ['${hostname}']"), run, image.CodeUnknownName, "${hostname}"},
		"a variable without an end":     {daemon("args: ['${state']"), run, image.CodeUnknownName, "${state"},
		"a bad environment name":        {daemon("env: {a-b: c}"), run, image.CodeBadManifest, "a-b"},
		"an absolute link":              {daemon("args: []"), map[string]entry{"run": run["run"], "l": {link: "/etc/passwd"}}, image.CodeOutside, "/etc/passwd"},
		"a link outside":                {daemon("args: []"), map[string]entry{"run": run["run"], "d/l": {link: "../../x"}}, image.CodeOutside, "../../x"},
		"a link up behind another link": {daemon("args: []"), map[string]entry{"run": run["run"], "d/e/m": {link: "../.."}, "d/e/l": {link: "m/../x"}}, image.CodeOutside, "m/../x"},
		"a command through such a link": {"agent: a\nversion: 1.0.0\nkind: daemon\nrun: {command: l}", map[string]entry{"l": {link: "/bin/sh"}}, image.CodeNoCommand, "l"},
		"a name that holds a backslash": {daemon("args: []"), map[string]entry{"run": run["run"], `a\b`: {}}, image.CodeSpecialFile, `a\\b`},
	})
}

func valid() *imagev1.Manifest {
	digest := sha256.Sum256([]byte("x"))
	m := &imagev1.Manifest{
		Agent: "a", Version: "1.0.0", Kind: agentv1.Kind_KIND_DAEMON, Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"},
		Run:  &imagev1.Run{Command: "run"},
		Blob: &imagev1.Blob{Digest: digest[:], SizeBytes: 1, ChunkSizeBytes: topology.ChunkSize, ChunkDigests: [][]byte{digest[:]}, UnpackedSizeBytes: 1, Entries: 1},
	}
	m.Id = image.ID(m)
	return m
}

func TestCheckRefuses(t *testing.T) {
	if err := image.Check(valid()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*imagev1.Manifest)
		code   string
	}{
		"an empty manifest":        {func(m *imagev1.Manifest) { proto.Reset(m) }, image.CodeBadAgentName},
		"a name":                   {func(m *imagev1.Manifest) { m.Agent = "a.b" }, image.CodeBadAgentName},
		"a version":                {func(m *imagev1.Manifest) { m.Version = "latest" }, image.CodeBadVersion},
		"no platform":              {func(m *imagev1.Manifest) { m.Platform = nil }, image.CodeBadPlatform},
		"a kind":                   {func(m *imagev1.Manifest) { m.Kind = 77 }, image.CodeBadManifest},
		"no kind":                  {func(m *imagev1.Manifest) { m.Kind = 0 }, image.CodeBadManifest},
		"no run":                   {func(m *imagev1.Manifest) { m.Run = nil }, image.CodeBadManifest},
		"a takeover":               {func(m *imagev1.Manifest) { m.Run.Takeover = 9 }, image.CodeBadManifest},
		"a stop timeout":           {func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 1 << 30 }, image.CodeBadManifest},
		"a zero byte":              {func(m *imagev1.Manifest) { m.Run.Args = []string{"a\x00"} }, image.CodeBadManifest},
		"too many words":           {func(m *imagev1.Manifest) { m.Run.Args = make([]string, 5000) }, image.CodeBadManifest},
		"too long an argument":     {func(m *imagev1.Manifest) { m.Run.Args = []string{strings.Repeat("x", 1<<17)} }, image.CodeBadManifest},
		"no blob":                  {func(m *imagev1.Manifest) { m.Blob = nil }, image.CodeBadManifest},
		"a short digest":           {func(m *imagev1.Manifest) { m.Blob.Digest = []byte{1} }, image.CodeBadManifest},
		"a short chunk digest":     {func(m *imagev1.Manifest) { m.Blob.ChunkDigests[0] = []byte{1} }, image.CodeBadManifest},
		"no bytes":                 {func(m *imagev1.Manifest) { m.Blob.SizeBytes = 0 }, image.CodeBadManifest},
		"more than 4 GiB":          {func(m *imagev1.Manifest) { m.Blob.SizeBytes = image.MaxSize + 1 }, image.CodeBadManifest},
		"no chunk size":            {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = 0 }, image.CodeBadManifest},
		"too large chunks":         {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes = topology.ChunkSize + 1 }, image.CodeBadManifest},
		"too small chunks":         {func(m *imagev1.Manifest) { m.Blob.ChunkSizeBytes, m.Blob.SizeBytes = 1, 1<<20 }, image.CodeBadManifest},
		"a missing chunk digest":   {func(m *imagev1.Manifest) { m.Blob.SizeBytes = topology.ChunkSize + 1 }, image.CodeBadManifest},
		"too large when unpacked":  {func(m *imagev1.Manifest) { m.Blob.UnpackedSizeBytes = image.MaxUnpacked + 1 }, image.CodeBadManifest},
		"too many entries":         {func(m *imagev1.Manifest) { m.Blob.Entries = image.MaxEntries + 1 }, image.CodeBadManifest},
		"an empty tag":             {func(m *imagev1.Manifest) { m.Tags = map[string]string{"": "x"} }, image.CodeBadManifest},
		"an id of something else":  {func(m *imagev1.Manifest) { m.Version = "1.0.1" }, image.CodeWrongID},
		"a variable nobody fills":  {func(m *imagev1.Manifest) { m.Run.Env = map[string]string{"A": "${}"} }, image.CodeUnknownName},
		"a command leading out":    {func(m *imagev1.Manifest) { m.Run.Command = "a/../../b" }, image.CodeOutside},
		"a command with backslash": {func(m *imagev1.Manifest) { m.Run.Command = `a\b` }, image.CodeOutside},
	} {
		t.Run(name, func(t *testing.T) {
			m := valid()
			c.change(m)
			wantCode(t, image.Check(m), c.code)
		})
	}
}
