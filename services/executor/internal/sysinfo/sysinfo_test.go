package sysinfo_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

func TestTwoReadingsOfAnUnchangedMachineAreEqual(t *testing.T) {
	a, b := sysinfo.Read(context.Background()), sysinfo.Read(context.Background())
	b.BootedAt = a.BootedAt // the kernel's clock is corrected now and then; the engine keeps the first
	if !proto.Equal(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
	if a.GetHostname() == "" || a.GetMemoryBytes() == 0 || a.GetProcessors() == 0 || a.GetKernel() == "" ||
		sysinfo.BootID() == "" {
		t.Errorf("something is missing: %v", a)
	}
}
