package listening

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestAConnectionGoesToTheSocketAtTheVeryAddress(t *testing.T) {
	at := netip.MustParseAddrPort
	four := []row{{at("127.0.0.1:80"), "own"}, {at("0.0.0.0:80"), "all"}, {at("0.0.0.0:81"), "all"}}
	six := []row{
		{at("[::1]:80"), "own6"}, {at("[::]:80"), "all6"}, {at("[::]:82"), "dual"},
		{at("[::ffff:127.0.0.1]:83"), "mapped"},
	}
	for to, want := range map[string]string{
		"127.0.0.1:80": "own", "127.0.0.2:80": "all", "127.0.0.1:81": "all", "127.0.0.1:82": "dual",
		"127.0.0.1:83": "mapped", "[::1]:80": "own6", "[::2]:80": "all6", "[::1]:81": "", "127.0.0.1:84": "",
	} {
		if got := strings.Join(choose(at(to), four, six), " "); got != want {
			t.Errorf("%s is accepted by %q, want %q", to, got, want)
		}
	}
}

// listen returns an address at which this process listens.
func listen(t *testing.T, network, host string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen(network, host)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return netip.MustParseAddrPort(l.Addr().String())
}

func TestTheHolderOfASocketIsFoundWithEachFamily(t *testing.T) {
	for _, c := range []struct{ network, host, to string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"}, {"tcp4", "0.0.0.0:0", "127.0.0.1"}, {"tcp", ":0", "127.0.0.1"},
		{"tcp", ":0", "::1"}, {"tcp6", "[::1]:0", "::1"},
	} {
		to := netip.AddrPortFrom(netip.MustParseAddr(c.to), listen(t, c.network, c.host).Port())
		inodes := At(to)
		if len(inodes) == 0 || !Any(inodes, []int{os.Getpid()}) || Any(inodes, []int{1, os.Getppid()}) {
			t.Errorf("%s %s: %v is not held by this process alone", c.network, c.host, to)
		}
		if mine := Who(inodes, func(pid int) bool { return pid == os.Getpid() }); !mine.Mine {
			t.Errorf("%s %s: %v is held by %+v, want this process", c.network, c.host, to, mine)
		}
		other := Who(inodes, func(int) bool { return false })
		if other.Pid != os.Getpid() || other.Mine || !strings.Contains(other.String(), "(listening.test)") {
			t.Errorf("%s %s: %v is held by %s (%+v)", c.network, c.host, to, other, other)
		}
	}
}

func TestTheHolderIsTheOneThatStartedTheOthers(t *testing.T) {
	parents := map[int]int{20: 300, 300: 1, 310: 300, 400: 310}
	for _, c := range []struct {
		pids []int
		want int
	}{{[]int{20, 300, 310, 400}, 300}, {[]int{20, 310}, 20}, {nil, 0}} {
		if got := eldest(c.pids, func(pid int) int { return parents[pid] }); got != c.want {
			t.Errorf("of %v it is %d, want %d", c.pids, got, c.want)
		}
	}
}

func TestAnAddressOfAnotherServerHasNoSocketHere(t *testing.T) {
	port := listen(t, "tcp", ":0").Port()
	if got := At(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)); len(got) > 0 {
		t.Errorf("it has %v", got)
	}
}

func TestWhatTheKernelPrintsIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000:0016":                         "0.0.0.0:22",
		"00000000000000000000000000000000:0050": "[::]:80",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"0000000000000000FFFF00000100007F:0050": "[::ffff:127.0.0.1]:80",
	} {
		if got, ok := ParseAddress(text); !ok || got.String() != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for _, wrong := range []string{"", "0100007F", "01:1", "0100007F:10000", "0100007F:GG", "xx:1"} {
		if got, ok := ParseAddress(wrong); ok {
			t.Errorf("%q is %v", wrong, got)
		}
	}
}

func TestASocketIsAmongThoseOfItsProcess(t *testing.T) {
	for _, inode := range At(listen(t, "tcp4", "127.0.0.1:0")) {
		if !slices.Contains(Sockets(os.Getpid()), inode) {
			t.Errorf("%s is not", inode)
		}
	}
}
