/* Guidance code as a process of its own: brakes all joints, and brings them to zero.
 *
 *     cc -std=c99 -O2 guidance.c -o guidance && python guidance_run.py ./guidance
 *
 * The protocol is that of docs/connect.md; any language with sockets will do. */
#define _POSIX_C_SOURCE 200112L
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 256 };

static int line(FILE *in, char *text)
{
    return fgets(text, 65536, in) != NULL;
}

int main(int argc, char **argv)
{
    static char text[65536];
    struct addrinfo wanted = {0}, *found;
    double period, number[MOST], command[MOST];
    int readings, commands, k, connection;
    FILE *in;

    if (argc < 3) return fprintf(stderr, "expected HOST PORT\n"), 2;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(argv[argc - 2], argv[argc - 1], &wanted, &found)) return 2;
    connection = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (connection < 0 || connect(connection, found->ai_addr, found->ai_addrlen)) return perror("connect"), 2;
    freeaddrinfo(found);
    in = fdopen(connection, "rb");

    /* What there is to read and to command: names and units, one in a line. */
    if (!in || !line(in, text)) return 2;
    if (sscanf(text, "spacearm 1 %lf %d %d", &period, &readings, &commands) != 3) return 2;
    if (readings != 2 * commands || readings >= MOST) return 2;
    for (k = 0; k < readings + commands; ++k) {
        if (!line(in, text)) return 2;
    }

    /* At each tick: time, joint positions, joint rates; back go the torques. The end of the run ends the loop. */
    while (fread(number, sizeof *number, 1 + readings, in) == (size_t)(1 + readings)) {
        const double *position = number + 1, *rate = number + 1 + commands;
        for (k = 0; k < commands; ++k) command[k] = -4.0 * position[k] - 3.0 * rate[k];
        if (write(connection, command, commands * sizeof *command) < 0) return 1;
    }
    fclose(in);
    return 0;
}
