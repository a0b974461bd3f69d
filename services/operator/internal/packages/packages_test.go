package packages_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/packages"
)

const control = `Package: shipper
Version: 1:1.5.0-1+b6
Architecture: amd64
Depends: adduser, libc6 (>= 2.34)
Conflicts: old-shipper
Description: ships logs
 and more
`

const service = `[Unit]
Description=ships logs
After=network.target
[Service]
Type=notify
TimeoutStartSec=1min 30s
User=shipper
Group=adm
Environment="MODE=fast and loose" LEVEL=info
EnvironmentFile=-/etc/default/shipper
ExecStart=/usr/sbin/shipper --config=/etc/shipper/main.conf \
  # a comment between
  --plugins /usr/share/shipper --mode ${MODE} $ARGS $UNSET --price $$5
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
TimeoutStopSec=20s
ProtectSystem=strict
ReadWritePaths=/var/log/shipper
StateDirectory=shipper
PrivateTmp=yes
NoNewPrivileges=true
AmbientCapabilities=CAP_NET_BIND_SERVICE
MemoryMax=64M
CPUQuota=50%
TasksMax=20
LimitNOFILE=1024:2048
KillMode=mixed
[Install]
WantedBy=multi-user.target
`

// shipper are the files of a package.
func shipper() (controls, all files) {
	return files{
			"control": control, "conffiles": "/etc/shipper/main.conf\n/etc/default/shipper\n/etc/logrotate.d/shipper\n",
			"postinst": "#!/bin/sh\nadduser --system shipper\n",
		}, files{
			"usr/sbin/shipper": "#!/bin/sh\n", "usr/share/shipper/plugin": "p", "etc/logrotate.d/shipper": "weekly\n",
			"etc/shipper/main.conf": "template = {{.x}}\n", "etc/default/shipper": "# ARGS\nARGS=\"-v  -x\"\n",
			"lib/systemd/system/shipper.service": service,
		}
}

func TestADebianPackageBecomesAnImageWithWhatItsUnitSays(t *testing.T) {
	m, notes := converted(t, written(t, "x.deb", deb(t, first(shipper()), second(shipper()))))
	if m.GetAgent() != "shipper" || m.GetVersion() != "1.5.0_1+b6" || m.GetKind() != agentv1.Kind_KIND_DAEMON ||
		m.GetDescription() != "ships logs" || m.GetPlatform().GetArch() != "amd64" {
		t.Errorf("%v", m)
	}
	want := &imagev1.Run{
		Command: "usr/sbin/shipper",
		Args: []string{"--config=${config}/etc/shipper/main.conf", "--plugins", "${image}/usr/share/shipper", "--mode",
			"fast and loose", "-v", "-x", "--price", "$5"},
		Env:     map[string]string{"MODE": "fast and loose", "LEVEL": "info", "ARGS": "-v  -x"},
		Ready:   &imagev1.Ready{Probe: &imagev1.Ready_Notify{Notify: true}, TimeoutMs: 90_000},
		Configs: []*imagev1.Config{{Template: "etc/shipper/main.conf", Path: "etc/shipper/main.conf", Mode: 0o644}},
		Reload:  imagev1.Reload_RELOAD_SIGNAL, StopTimeoutMs: 20_000,
		Limits: &imagev1.Limits{MemoryBytes: 64 << 20, CpuPercent: 50, Tasks: 20, OpenFiles: 1024},
		Sandbox: &imagev1.Sandbox{
			User: "shipper", NoNewPrivileges: true, ReadOnlySystem: true, PrivateTmp: true,
			Writable: []string{"/var/log/shipper", "/var/lib/shipper"}, BoundCapabilities: true,
			Capabilities: []string{"CAP_NET_BIND_SERVICE"},
		},
	}
	if diff := cmp.Diff(want, m.GetRun(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	lacks(t, notes,
		"NOT_RUN: postinst: scripts of a package are never run; it uses adduser\n",
		"NEEDS_PACKAGE: adduser, libc6 (>= 2.34): ", "NEEDS_USER: shipper: ", "NOT_MAPPED: KillMode=mixed: ",
		"NOT_MAPPED: ExecStart: $UNSET is not set", "NOT_MAPPED: Group=adm: ", "NOT_MAPPED: After=network.target: ",
		"NOT_MAPPED: etc/default/shipper: its values of today", "NOT_MAPPED: etc/logrotate.d/shipper: ",
		"NOT_MAPPED: conflict with old-shipper: ")
	if strings.Contains(notes, "Restart=") || strings.Contains(notes, "usr/share/shipper") {
		t.Errorf("too much is noted:\n%s", notes)
	}
	if diff := cmp.Diff("adduser, libc6 (>= 2.34)", m.GetTags()["package.needs"]); diff != "" {
		t.Error(diff)
	}
}

func first(controls, _ files) files { return controls }
func second(_, all files) files     { return all }

// values are the values in the header of shipper as an RPM package.
func values() []value {
	return []value{
		{1000, "Shipper"}, {1001, "2.0~rc1"}, {1002, "1.el9"}, {1004, "ships logs"}, {1022, "aarch64"},
		{1024, "useradd shipper"}, {1049, []string{"rpmlib(X)", "glibc", "openssl-libs"}},
		{1048, []uint32{0, 12, 0}}, {1050, []string{"1", "2.34", ""}}, {1116, []uint32{0, 1, 2}},
		{1117, []string{"shipper", "main.conf", "shipper.service"}},
		{1118, []string{"/usr/sbin/", "/etc/shipper/", "/usr/lib/systemd/system/"}}, {1037, []uint32{0, 1, 0}},
		{1039, []string{"root", "shipper", "root"}}, {5010, []string{"cap_net_raw=ep", "", ""}},
	}
}

func TestAnRPMPackageBecomesAnImageWithWhatItsUnitSays(t *testing.T) {
	all := files{
		"usr/sbin/shipper": "#!/bin/sh\n", "etc/shipper/main.conf": "level=info\n",
		"usr/lib/systemd/system/shipper.service": "[Service]\nExecStart=/usr/sbin/shipper /etc/shipper/main.conf\n",
	}
	m, notes := converted(t, written(t, "x.rpm", rpm(t, all, values()...)))
	if m.GetAgent() != "shipper" || m.GetVersion() != "2.0.0-rc1.1.el9" || m.GetPlatform().GetArch() != "arm64" ||
		m.GetRun().GetArgs()[0] != "${config}/etc/shipper/main.conf" {
		t.Errorf("%v", m)
	}
	lacks(t, notes, "NOT_RUN: %post: scripts of a package are never run; it uses useradd",
		"NEEDS_PACKAGE: glibc >= 2.34, openssl-libs: ", "NOT_KEPT: usr/sbin/shipper: it has file capabilities",
		"NOT_KEPT: owner shipper: ", "NOT_MAPPED: health check: ")
}

func TestAnArchiveAndAProgramBecomeImages(t *testing.T) {
	elf := append([]byte("\x7fELF\x02\x01\x01\x00"), make([]byte, 56)...)
	elf[16], elf[18], elf[20], elf[52], elf[54], elf[58] = 2, 183, 1, 64, 56, 64
	o := written(t, "beacon_1.2.3", elf)
	m, _ := converted(t, o)
	if m.GetAgent() != "beacon" || m.GetVersion() != "1.2.3" || m.GetRun().GetCommand() != "beacon" ||
		m.GetPlatform().GetArch() != "arm64" {
		t.Errorf("a program: %v", m)
	}
	tarball := tarOf(t, "node_exporter-1.9.1.linux-amd64/", files{"bin/node_exporter": "#!/bin/sh\n", "README": "x"})
	o = written(t, "node_exporter-1.9.1.linux-amd64.tar.xz", packed(t, tarball, "xz"))
	m, notes := converted(t, o)
	if m.GetAgent() != "node_exporter" || m.GetVersion() != "1.9.1" || m.GetRun().GetCommand() != "bin/node_exporter" {
		t.Errorf("an archive: %v", m)
	}
	lacks(t, notes, "NOT_MAPPED: run: no unit says how it is started")
	o.Agent, o.Run, o.Build.Version = "exporter", []string{"bin/node_exporter", "-x"}, "9.0.0"
	m, _ = converted(t, o)
	if m.GetAgent() != "exporter" || m.GetVersion() != "9.0.0" || len(m.GetRun().GetArgs()) != 1 {
		t.Errorf("with options: %v", m)
	}
	recipe := "agent: own\nversion: 3.0.0\nkind: files\nos: linux\narch: amd64\n"
	o = written(t, "any.tar", tarOf(t, "top/", files{"garrison.yaml": recipe, "f": "x"}))
	if m, _ = converted(t, o); m.GetAgent() != "own" || m.GetKind() != agentv1.Kind_KIND_FILES {
		t.Errorf("with a recipe inside: %v", m)
	}
	o = written(t, "any.tar", tarOf(t, "top/", files{"garrison.yaml": recipe, "f": "x"}))
	o.Agent = "other"
	refused(t, o, code.BadRecipe, "has a garrison.yaml")
}

func TestTheSameFileBecomesTheSameImageAnywhere(t *testing.T) {
	controls, all := shipper()
	data := deb(t, controls, all)
	a, _ := converted(t, written(t, "x.deb", data))
	defer syscall.Umask(syscall.Umask(0o077))
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("LANG", "tr_TR.UTF-8")
	b, _ := converted(t, written(t, "other name.deb", data))
	all["etc/default/shipper"] += "\n" // another package
	c, _ := converted(t, written(t, "x.deb", deb(t, controls, all)))
	if !bytes.Equal(a.GetBlob().GetDigest(), b.GetBlob().GetDigest()) || a.GetId() != b.GetId() {
		t.Errorf("%s and %s", a.GetId(), b.GetId())
	}
	if a.GetId() == c.GetId() {
		t.Error("another package became the same image")
	}
}

func TestADamagedOrHostileFileIsRefusedByName(t *testing.T) {
	controls, all := shipper()
	whole := deb(t, controls, all)
	for _, n := range []int{9, 40, 100, len(whole) / 2, len(whole) - 40} {
		refused(t, written(t, "x.deb", whole[:n]), code.BadArchive, "truncated, damaged or no")
	}
	whole = rpm(t, all, values()...)
	for _, n := range []int{50, 100, 150, 400, len(whole) - 8} {
		refused(t, written(t, "x.rpm", whole[:n]), code.BadArchive, "truncated, damaged or no")
	}
	source := rpm(t, all, append(values(), value{1106, []uint32{1}})...)
	refused(t, written(t, "x.rpm", source), code.BadArchive, "source")
	refused(t, written(t, "x", []byte("just text")), code.BadArchive, "is no directory, program")
	refused(t, written(t, "x", nil), code.BadArchive, "is no directory, program")
	refused(t, written(t, "x.deb", ar(member{"debian-binary", nil})), code.BadArchive, "it lacks")
	evil := member{"data.tar", tarOf(t, "../", files{"evil": "x"})}
	fine := member{"control.tar", tarOf(t, "", controls)}
	refused(t, written(t, "x.deb", ar(member{"debian-binary", nil}, fine, evil)), code.BadArchive, `"../evil"`)
	refused(t, written(t, "x.deb", ar(fine, fine)), code.BadArchive, "twice")
	huge := rpmHeader()
	copy(huge[8:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	lead := append([]byte("\xed\xab\xee\xdb"), make([]byte, 92)...)
	refused(t, written(t, "x.rpm", append(lead, huge...)), code.BadArchive, "cut off or too large")
}

func TestWhatIsRunMustBeKnown(t *testing.T) {
	controls, all := shipper()
	with := func(unit string) packages.Options {
		all["lib/systemd/system/shipper.service"] = unit
		return written(t, "x.deb", deb(t, controls, all))
	}
	refused(t, with("[Service]\nExecStart=/bin/sh -c true\n"), code.NoCommand, "does not begin with a program of")
	refused(t, with("[Service]\nType=oneshot\nExecStart=/usr/sbin/shipper\nExecStart=/usr/sbin/shipper\n"),
		code.NoCommand, "has 2 commands under ExecStart")
	refused(t, with("[Service]\nType=forking\nExecStart=/usr/sbin/shipper\n"), code.NoCommand, "names no PIDFile")
	o := with("[Service]\nExecStart=\nExecStart=/usr/sbin/shipper a\nExecStart=\nExecStart=-/usr/sbin/shipper b\n")
	if m, _ := converted(t, o); len(m.GetRun().GetArgs()) != 1 || m.GetRun().GetArgs()[0] != "b" {
		t.Errorf("%v", m.GetRun())
	}
	delete(all, "lib/systemd/system/shipper.service")
	all["lib/systemd/system/a.service"], all["lib/systemd/system/b.service"] = service, service
	o = written(t, "x.deb", deb(t, controls, all))
	refused(t, o, code.NoCommand, "2 services, and which is run is not known: a.service, b.service")
	o.Unit = "b"
	_, notes := converted(t, o)
	lacks(t, notes, "NOT_MAPPED: lib/systemd/system/a.service: a further service")
}

func TestAnAgentThatForksIsKeptInTheForeground(t *testing.T) {
	controls, all := shipper()
	all["lib/systemd/system/shipper.service"] =
		"[Service]\nType=forking\nPIDFile=/run/shipper.pid\nExecStart=/usr/sbin/shipper -d\n"
	m, notes := converted(t, written(t, "x.deb", deb(t, controls, all)))
	run := m.GetRun()
	want := []string{"run", "/run/shipper.pid", "${image}/usr/sbin/shipper", "-d"}
	if diff := cmp.Diff(want, run.GetArgs()); diff != "" || run.GetCommand() != "garrison-forking" ||
		run.GetReady().GetExec().GetCommand() != "garrison-forking" {
		t.Errorf("%v %s", run, diff)
	}
	lacks(t, notes, "NOT_MAPPED: Type=forking: ")
}

func TestTheRecipeOfAPackageCanBeChanged(t *testing.T) {
	controls, all := shipper()
	o := written(t, "x.deb", deb(t, controls, all))
	o.Show = true
	r, err := packages.Convert(t.Context(), o)
	if err != nil || r.Image != nil || !strings.Contains(r.Recipe, "\n  command: usr/sbin/shipper\n") {
		t.Fatalf("%v, %v:\n%s", r.Image, err, r.Recipe)
	}
	o.Show, o.Recipe = false, filepath.Join(t.TempDir(), "recipe.yaml")
	changed := strings.Replace(r.Recipe, "notify: true", "tcp: 127.0.0.1:80", 1)
	if err := os.WriteFile(o.Recipe, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	m, notes := converted(t, o)
	if m.GetRun().GetReady().GetTcp() == "" || m.GetVersion() != "1.5.0_1+b6" || len(m.GetRun().GetConfigs()) != 1 {
		t.Errorf("%v", m)
	}
	if lacks(t, notes, "NOT_RUN: postinst"); strings.Contains(notes, "NOT_MAPPED: KillMode") {
		t.Errorf("too much is noted:\n%s", notes)
	}
}

func TestAFileOfAnySizeIsReadOnlyUpToABound(t *testing.T) {
	controls, all := shipper()
	long := strings.Repeat("#"+strings.Repeat("x", 1023)+"\n", 1100)
	controls["md5sums"], all["etc/default/shipper"], all["etc/shipper/main.conf"] = long, long, long
	_, notes := converted(t, written(t, "x.deb", deb(t, controls, all)))
	lacks(t, notes, "NOT_MAPPED: EnvironmentFile=-/etc/default/shipper: the package has no such file of at most 1 MiB",
		"NOT_MAPPED: etc/shipper/main.conf: it is no text of a template's size")
	all["lib/systemd/system/shipper.service"] = long
	refused(t, written(t, "x.deb", deb(t, controls, all)), code.TooLarge, "shipper.service has more than")
}

// Nothing that a package brings may end the conversion with a panic.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("!<arch>\n"), "[Service]\nExecStart=/usr/sbin/shipper\n")
	f.Add(append([]byte("\xed\xab\xee\xdb"), make([]byte, 120)...), service)
	f.Fuzz(func(t *testing.T, data []byte, unit string) {
		o := written(t, "x", data)
		if r, err := packages.Convert(t.Context(), o); err == nil && r.Image == nil {
			t.Error("neither an image nor an error")
		}
		all := files{"usr/sbin/shipper": "#!/bin/sh\n", "lib/systemd/system/shipper.service": unit}
		o = written(t, "x.deb", ar(member{"debian-binary", nil},
			member{"control.tar", tarOf(t, "", files{"control": control})}, member{"data.tar", tarOf(t, "", all)}))
		if _, err := packages.Convert(t.Context(), o); err != nil && os.IsNotExist(err) {
			t.Error(err)
		}
	})
}
