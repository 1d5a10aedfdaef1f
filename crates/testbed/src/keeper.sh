# Owns one server and its folder for as long as its standard input is open.
#
# DIR is the folder, created and removed here. PREPARE, SERVE, READY and CLEAN are commands that run inside it; END
# is the signal that ends the server at once. Each line of input is an order; the reply is `done` or `failed`:
#
#   prepare         runs PREPARE
#   start ARG       runs SERVE with $arg, and waits until READY succeeds
#   watch           pauses, and fails if the server has ended
#   stop SIGNAL     ends the server, and waits until it has ended

# Close the descriptors of the owner.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
umask 077
ulimit -c 0
mkdir "$DIR" 2>&1 && cd "$DIR" || exit 1

server=
leave() {
    if [ -n "$server" ]; then
        kill -s "$END" "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    eval "$CLEAN"
    cd / && rm -rf "$DIR"
}
trap leave EXIT
trap exit INT TERM HUP

is_ready() {
    tries=0
    until eval "$READY"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 3000 ] || ! kill -0 "$server" 2>/dev/null; then return 1; fi
        sleep 0.02
    done
}

while read -r order arg; do
    case $order in
    prepare) (eval "$PREPARE") </dev/null >>log 2>&1 ;;
    start)
        (eval "$SERVE") </dev/null >>log 2>&1 &
        server=$!
        is_ready
        ;;
    watch)
        # Waiting for a command lets the shell notice that the server has ended.
        sleep 0.02
        kill -0 "$server" 2>/dev/null
        ;;
    stop)
        kill -s "$arg" "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        server=
        ;;
    *) false ;;
    esac
    if [ $? -eq 0 ]; then echo "done"; else echo "failed"; fi
done
