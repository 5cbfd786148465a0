# Makes a root folder for a container, and runs its program there. Runs in a mount namespace of its own, as root of the
# machine or of a user namespace: sh container.sh ROOT (MODE SOURCE TARGET)... -- ro|rw PROGRAM ARGUMENT...
set -e
root=$1
shift
mount -t tmpfs -o mode=755 container "$root"
cd "$root"

# What an image has: a file, folder or link of the machine, read-only.
share() {
    if [ -L "$1" ]; then
        cp -P "$1" ".$1"
    elif [ -d "$1" ]; then
        mkdir -p ".$1"
        mount --bind -o ro,nosuid,nodev "$1" ".$1"
    elif [ -e "$1" ]; then
        touch ".$1"
        mount --bind -o ro,nosuid,nodev "$1" ".$1"
    fi
}
mkdir -m 1777 tmp
mkdir usr dev proc etc
for path in /bin /sbin /lib* /usr/bin /usr/sbin /usr/lib* /etc/ssl /etc/ld.so.cache /etc/nsswitch.conf /etc/hosts \
    /etc/resolv.conf; do
    share "$path"
done
for device in null zero full random urandom; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mount --rbind /proc proc

while [ "$1" != -- ]; do
    if [ -d "$2" ]; then
        mkdir -p ".$3"
    else
        mkdir -p "$(dirname ".$3")"
        touch ".$3"
    fi
    mount --bind -o "$1,nosuid,nodev" "$2" ".$3"
    shift 3
done
mode=$2
shift 2

# Not chroot: a process in one cannot create a user namespace.
pivot_root . tmp
umount -l tmp
mount -o "remount,bind,$mode" /
exec "$@"
