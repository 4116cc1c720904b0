package process

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// Port is a TCP port that stays reserved for one part while the Port is open,
// also while the part is down.
//
// The reservation is a socket that is bound but never listens. The kernel
// hands a port with a bound socket to nobody who asks for "any port", while a
// server that names the port and sets SO_REUSEADDR, as every Go server does,
// may still listen on it. So labs side by side never race for a port, and a
// part that is restarted finds its own free.
type Port struct {
	// Address is the IPv4 address, "127.0.0.1" or "0.0.0.0".
	Address string
	// Number is the port.
	Number int

	file *os.File
}

// ReservePort lets the kernel pick a free TCP port on an IPv4 address.
func ReservePort(address string) (*Port, error) {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return nil, fmt.Errorf("reserving a port: %q is no IPv4 address", address)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserving a port on %s: %w", address, os.NewSyscallError("socket", err))
	}
	file := os.NewFile(uintptr(fd), "port reservation")
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("reserving a port on %s: %w", address, os.NewSyscallError("setsockopt", err))
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte(ip)}); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("reserving a port on %s: %w", address, os.NewSyscallError("bind", err))
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("reserving a port on %s: %w", address, os.NewSyscallError("getsockname", err))
	}
	bound, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		_ = file.Close()
		return nil, fmt.Errorf("reserving a port on %s: unexpected socket address %T", address, name)
	}
	return &Port{Address: address, Number: bound.Port, file: file}, nil
}

// HostPort returns "address:port".
func (p *Port) HostPort() string { return fmt.Sprintf("%s:%d", p.Address, p.Number) }

// Close gives the port back.
func (p *Port) Close() error { return p.file.Close() }
