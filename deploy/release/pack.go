package release

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const home = "https://github.com/garrison-fleet/garrison"

// epoch is the time of the release as SOURCE_DATE_EPOCH.
func (m *maker) epoch() string { return strconv.FormatInt(m.at().Unix(), 10) }

// pack writes the deb, the rpm and the archive of a package.
func (m *maker) pack(k kit, arch string) error {
	entries, err := m.entries(k, arch)
	if err != nil {
		return err
	}
	for _, p := range []nfpm.Packager{deb.Default, rpm.DefaultRPM} {
		info, err := m.info(k, arch, entries)
		if err != nil {
			return err
		}
		name := p.ConventionalFileName(new(*info)) // it changes what it reads
		if err := m.create(name, func(w io.Writer) error { return p.Package(info, w) }); err != nil {
			return err
		}
	}
	name := fmt.Sprintf("%s-%s-linux-%s.tar.gz", k.name, m.Version, arch)
	return m.create(name, func(w io.Writer) error { return m.archive(w, entries) })
}

// info describes a package to nfpm. Nothing in it comes from the machine.
func (m *maker) info(k kit, arch string, entries []entry) (*nfpm.Info, error) {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: k.name, Arch: arch, Platform: "linux", Version: m.Version, VersionSchema: "semver",
		Section: "admin", Priority: "optional", License: "Apache-2.0", MTime: m.at(),
		Maintainer: "Garrison <" + home + ">", Vendor: "Garrison", Homepage: home, Description: k.summary,
		DisableGlobbing: true,
	})
	info.RPM.BuildHost, info.RPM.Summary = "localhost", k.summary
	for _, e := range entries {
		c := &files.Content{
			Source: e.from, Destination: e.path, Packager: e.only,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode, MTime: m.at()},
		}
		switch {
		case e.from == "":
			c.Type = files.TypeDir
		case e.config:
			c.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	if len(k.units) == 0 {
		return info, nil
	}
	var err error
	for name, at := range map[string]*string{
		"postinst": &info.Scripts.PostInstall, "prerm": &info.Scripts.PreRemove, "postrm": &info.Scripts.PostRemove,
	} {
		path, scriptErr := m.script(k, name)
		*at, err = path, errors.Join(err, scriptErr)
	}
	return info, err
}

// archive writes the files of a package for machines without dpkg and rpm.
func (m *maker) archive(w io.Writer, entries []entry) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, e := range entries {
		if e.from == "" {
			continue
		}
		data, err := os.ReadFile(e.from)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{
			Name: e.path[1:], Mode: int64(e.mode), Size: int64(len(data)), ModTime: m.at(), Format: tar.FormatGNU,
			Uname: "root", Gname: "root",
		}); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// create writes a file of the release.
func (m *maker) create(name string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(m.out, name))
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Chmod(0o644), f.Close())
}
