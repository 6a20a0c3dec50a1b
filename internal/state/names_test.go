package state

import (
	"regexp"
	"strings"
	"testing"
)

var safeName = regexp.MustCompile(`^[a-z0-9_-]([a-z0-9_.~-]*[a-z0-9_-])?$`)

func TestEscape(t *testing.T) {
	seen := map[string]string{}
	f := func(text, start string) {
		t.Helper()
		got := escape(text)
		if got != start && !(strings.HasSuffix(start, "~") && strings.HasPrefix(got, start)) {
			t.Errorf("escape(%q) = %s, want %s", text, got, start)
		}
		if !safeName.MatchString(got) || len(got) > 81 {
			t.Errorf("escape(%q) = %s is not safe", text, got)
		}
		if other, ok := seen[strings.ToLower(got)]; ok {
			t.Errorf("escape(%q) = escape(%q) = %s", text, other, got)
		}
		seen[strings.ToLower(got)] = text
	}
	f("orders", "orders")
	f("orders.v1_x-2", "orders.v1_x-2")
	f("Orders", "orders~")
	f("ORDERS", "orders~")
	f("", "_~")
	f(".", "_~")
	f("..", "__~")
	f(".hidden", "_hidden~")
	f("end.", "end_~")
	f("a/b", "a_b~")
	f("../../etc/passwd", "______etc_passwd~")
	f(`a\b`, "a_b~")
	f("a b", "a_b~")
	f("a\x00b", "a_b~")
	f("größe", "gr____e~")
	f("con", "con~")
	f("con.orders", "con_orders~")
	f("com1", "com1~")
	f("lpt9.x", "lpt9_x~")
	f("com10", "com10")
	f("common", "common")
	f("com", "com")
	f("l1", "l1")
	f("orders~0123456789abcdef", "orders_0123456789abcdef~")
	long := strings.Repeat("a", 64)
	f(long, long)
	f(long+"a", long+"~")
	f(long+"b", long+"~")
	f(strings.Repeat("x", 30_000), strings.Repeat("x", 64)+"~")
}

func TestParseName(t *testing.T) {
	f := func(name, shard string, sequence int64, ok bool) {
		t.Helper()
		if s, n, o := parseName(name); o != ok || ok && (s != shard || n != sequence) {
			t.Errorf("parseName(%q) = %q, %d, %v", name, s, n, o)
		}
	}
	f(fileName("orders-3", 7), "orders-3", 7, true)
	f(fileName("a-1-2", 1<<61), "a-1-2", 1<<61, true)
	f("orders-3-000000000007.checkpoint.tmp", "", 0, false)
	f("orders-3-7", "", 0, false)
	f("orders-3-x.checkpoint", "", 0, false)
	f("orders-3-+7.checkpoint", "", 0, false)
	f("orders-3-.checkpoint", "", 0, false)
	f("orders.checkpoint", "", 0, false)
	f(".checkpoint", "", 0, false)
	f("orders-3-9223372036854775807.checkpoint", "", 0, false)
	f("orders-3-99999999999999999999999.checkpoint", "", 0, false)
}
